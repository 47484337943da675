#include "ranks/local_ranks.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/comm/connect.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "launch/cpu_share.h"

namespace capstan::ranks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array forwarded{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

[[noreturn]] void system_error(const char* what) { throw Error(cat(what, ": ", std::strerror(errno))); }

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// During its lifetime signals arrive as data; its destructor restores the old mask.
class SignalInbox {
 public:
  SignalInbox() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : forwarded) sigaddset(&set, signal);
    sigaddset(&set, SIGCHLD);
    if (pthread_sigmask(SIG_BLOCK, &set, &old_) != 0) system_error("cannot block signals");
    fd_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (fd_.get() < 0) system_error("cannot open a signalfd");
  }
  ~SignalInbox() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& old_mask() const { return old_; }
  std::optional<signalfd_siginfo> next() const {
    signalfd_siginfo info{};
    if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return info;
  }

 private:
  sigset_t old_{};
  Descriptor fd_;
};

/// One of a rank's output streams: complete lines are passed to ours, after the rank's name.
class Stream {
 public:
  Stream(int rank, Descriptor from, int to) : prefix_(cat("[rank ", rank, "] ")), from_(std::move(from)), to_(to) {}

  int fd() const { return from_.get(); }
  /// Passes on complete lines; at the end of the stream also an unfinished one.
  void pump() {
    std::array<char, 65536> buffer{};
    for (;;) {
      const ssize_t count = read(from_.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) break;
      pending_.append(buffer.data(), static_cast<std::size_t>(count));
      pass_lines();
    }
    if (!pending_.empty()) {
      pending_ += '\n';
      pass_lines();
    }
    from_.reset();
  }

 private:
  void pass_lines() {
    const auto end = pending_.rfind('\n');
    if (end == std::string::npos) return;
    std::string out;
    for (const std::string& line : split(std::string_view(pending_).substr(0, end), '\n'))
      out += cat(prefix_, line, '\n');
    pending_.erase(0, end + 1);
    to_.write(out);
  }

  std::string prefix_;
  std::string pending_;
  Descriptor from_;
  Output to_;
};

/// C strings for exec.
class Strings {
 public:
  explicit Strings(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

bool names(const char* variable, const std::string& name) {
  return std::strncmp(variable, name.c_str(), name.size()) == 0 && variable[name.size()] == '=';
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// This process's CPUs, as far as a control group lets it use them.
int usable_cpus() {
  const int own = static_cast<int>(launch::own_cpus().size());
  const int quota = launch::cpu_quota();
  return quota > 0 ? std::min(own, quota) : own;
}

/// This process's variables, with `own` in place of those of the same name.
std::vector<std::string> environment_with(Pairs own, int n) {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {  // NOLINT(concurrency-mt-unsafe): nobody sets any
    own.emplace_back("OMP_NUM_THREADS", std::to_string(std::max(1, usable_cpus() / n)));
  }
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const auto same = [&](const auto& pair) { return names(*variable, pair.first); };
    if (std::none_of(own.begin(), own.end(), same)) all.emplace_back(*variable);
  }
  for (const auto& [name, value] : own) all.push_back(cat(name, "=", value));
  return all;
}

struct LocalRank {
  pid_t process = -1;
  bool running = true;
};

/// The ranks of one run on this host, from their start to their end.
class LocalRanks {
 public:
  /// With `of_step` they are ranks of a step of srun's, and use its rendezvous.
  LocalRanks(int n, int first_rank, bool of_step, std::string host, const std::vector<std::string>& arguments,
             std::chrono::milliseconds grace, std::vector<int> orderly)
      : grace_(grace), orderly_(std::move(orderly)), first_rank_(first_rank), host_(std::move(host)) {
    if (of_step) {
      note_.emplace();
    } else {
      server_.emplace("capstan/local");
    }
    for (int local = 0; local < n; ++local) start(local, n, arguments);
  }

  int wait() {
    while (running() > 0 || !streams_.empty()) {
      poll_once();
      read_signals();
      reap();
      miss_stragglers();
      escalate();
    }
    return exit_code_;
  }

 private:
  std::vector<std::string> environment_of(int local, int n) const {
    if (note_) {
      return environment_with({{"CAPSTAN_LOCAL_RANK", cat(local)},
                               {"CAPSTAN_LOCAL_SIZE", cat(n)},
                               {"CAPSTAN_LOCAL_FAILURE", cat(note_->fd())}},
                              n);
    }
    return environment_with({{"CAPSTAN_RANK", cat(local)},
                             {"CAPSTAN_WORLD_SIZE", cat(n)},
                             {"CAPSTAN_RENDEZVOUS", server_->rendezvous().text()},
                             {"CAPSTAN_SECRET", server_->rendezvous().secret}},
                            n);
  }

  void start(int local, int n, const std::vector<std::string>& arguments) {
    const int rank = first_rank_ + local;
    Strings argv(arguments);
    Strings environment(environment_of(local, n));
    std::array<int, 2> out{-1, -1};
    std::array<int, 2> err{-1, -1};
    if (rank > 0 && (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0)) {
      system_error("cannot make a pipe");
    }
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) system_error("cannot start a rank");
    if (child == 0) {  // only what is safe between fork and exec
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      sigprocmask(SIG_SETMASK, &inbox_.old_mask(), nullptr);
      if (rank > 0 && (dup2(out[1], STDOUT_FILENO) < 0 || dup2(err[1], STDERR_FILENO) < 0)) _exit(127);
      execve("/proc/self/exe", argv.data(), environment.data());
      _exit(127);
    }
    ranks_.push_back({child, true});
    if (rank == 0) return;
    const Descriptor written_by_child[] = {Descriptor(out[1]), Descriptor(err[1])};
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    streams_.push_back(std::make_unique<Stream>(rank, Descriptor(out[0]), STDOUT_FILENO));
    streams_.push_back(std::make_unique<Stream>(rank, Descriptor(err[0]), STDERR_FILENO));
  }

  std::ptrdiff_t running() const {
    return std::count_if(ranks_.begin(), ranks_.end(), [](const LocalRank& rank) { return rank.running; });
  }

  void poll_once() {
    std::vector<pollfd> wanted{{inbox_.fd(), POLLIN, 0}};
    for (const auto& stream : streams_) wanted.push_back({stream->fd(), POLLIN, 0});
    poll(wanted.data(), wanted.size(), 100);
    for (const auto& stream : streams_) stream->pump();
    // A grandchild may hold a pipe open after all ranks have ended: then there is nothing to wait for.
    const bool over = running() == 0;
    std::erase_if(streams_, [over](const auto& stream) { return over || stream->fd() < 0; });
  }

  void read_signals() {
    while (const auto info = inbox_.next()) {
      const int signal = static_cast<int>(info->ssi_signo);
      // The terminal sends its signals to the ranks too.
      if (signal != SIGCHLD && info->ssi_code != SI_KERNEL) send(signal);
    }
  }

  void send(int signal) {
    for (const LocalRank& rank : ranks_) {
      if (rank.running) kill(rank.process, signal);
    }
  }

  void reap() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      int status = 0;
      if (!ranks_[i].running || waitpid(ranks_[i].process, &status, WNOHANG) != ranks_[i].process) continue;
      ranks_[i].running = false;
      if (!first_ended_at_) first_ended_at_ = Clock::now();
      if (status != 0) failed(static_cast<int>(i), status);
    }
  }

  void failed(int local, int status) {
    const int rank = first_rank_ + local;
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const int peer_failed = static_cast<int>(ExitCode::peer_failed);
    const bool first = exit_code_ == 0 || (exit_code_ == peer_failed && code != peer_failed && !ending_);
    if (first) exit_code_ = code;
    if (!failed_at_) failed_at_ = Clock::now();
    const bool is_orderly = std::find(orderly_.begin(), orderly_.end(), code) != orderly_.end();
    if (code == peer_failed || is_orderly || !first) return;
    const std::string what =
        WIFSIGNALED(status) ? cat("was ", signal_text(WTERMSIG(status))) : cat("ended with exit code ", code);
    if (WIFSIGNALED(status)) log::error(cat("rank ", rank, " ", what));
    if (server_) server_->publish_failure(rank, host_, cat("it ", what));
    if (note_) note_->write(rank, host_, cat("it ", what));
  }

  // Ranks end together. Once one has ended well, no heartbeat tells of another that is suspended or hangs.
  void miss_stragglers() {
    if (failed_at_ || !first_ended_at_ || running() == 0 || Clock::now() - *first_ended_at_ < 5 * grace_) return;
    std::vector<std::string> left;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].running) left.push_back(std::to_string(first_rank_ + static_cast<int>(i)));
    }
    log::error(cat(left.size() == 1 ? "rank " : "ranks ", join(left), " did not end within ",
                   number_text(std::chrono::duration<double>(5 * grace_).count()), " s of the first that did"));
    failed_at_ = Clock::now() - grace_;
    exit_code_ = static_cast<int>(ExitCode::peer_failed);
  }

  void escalate() {
    if (!failed_at_ || running() == 0) return;
    const auto since = Clock::now() - *failed_at_;
    if (since > grace_ && !ending_) {
      ending_ = true;
      log::error(cat(running(), " rank(s) did not end within ",
                     number_text(std::chrono::duration<double>(grace_).count()), " s of the failure: sending SIGTERM"));
      send(SIGTERM);
    }
    if (since > grace_ + grace_ / 2) send(SIGKILL);
  }

  const std::chrono::milliseconds grace_;
  const std::vector<int> orderly_;
  const int first_rank_;
  const std::string host_;
  SignalInbox inbox_;  // before the server: its thread inherits the mask
  std::optional<comm::RendezvousServer> server_;
  std::optional<comm::FailureNote> note_;
  std::vector<LocalRank> ranks_;
  std::vector<std::unique_ptr<Stream>> streams_;
  int exit_code_ = 0;
  bool ending_ = false;  // ranks may be dying of our own signals
  std::optional<Clock::time_point> first_ended_at_;
  std::optional<Clock::time_point> failed_at_;
};

// So many processes would take the machine down before the first of them could say what is wrong.
void check_count(int n) {
  if (n < 1) throw Error(cat("cannot start ", n, " ranks"), "give -n 1 or more");
  const auto most = std::max(256, 16 * usable_cpus());
  if (n > most) {
    throw Error(cat("cannot start ", n, " ranks on this host: its ", usable_cpus(), " CPUs could never run them"),
                cat("give -n at most ", most, ", as a rule the number of GPUs; `capstan check -n ", n,
                    "` judges a configuration for so many ranks"));
  }
}

}  // namespace

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  std::string text = cat("killed by signal ", signal, name == nullptr ? "" : cat(" (SIG", name, ")"));
  if (signal == SIGKILL) text += ": most often by the kernel's out-of-memory killer, see dmesg or journalctl -k";
  return text;
}

int run_local_ranks(int n, const std::vector<std::string>& arguments, std::chrono::milliseconds grace,
                    std::vector<int> orderly) {
  check_count(n);
  LocalRanks ranks(n, 0, /*of_step=*/false, "this host", arguments, grace, std::move(orderly));
  return ranks.wait();
}

int run_ranks_of_step(int n, int first_rank, const std::string& host, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds grace, std::vector<int> orderly) {
  check_count(n);
  LocalRanks ranks(n, first_rank, /*of_step=*/true, host, arguments, grace, std::move(orderly));
  return ranks.wait();
}

}  // namespace capstan::ranks
