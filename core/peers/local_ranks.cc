#include "peers/local_ranks.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/output.h>
#include <capstan/base/text.h>

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
#include "peers/failure_note.h"
#include "peers/rendezvous_server.h"
#include "peers/sockets.h"

namespace capstan::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array forwarded{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

[[noreturn]] void system_error(const char* what) { throw Error(cat(what, ": ", std::strerror(errno))); }

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
    if (fd_.fd() < 0) system_error("cannot open a signalfd");
  }
  ~SignalInbox() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_.fd(); }
  const sigset_t& old_mask() const { return old_; }
  std::optional<signalfd_siginfo> next() const {
    signalfd_siginfo info{};
    if (read(fd_.fd(), &info, sizeof info) != sizeof info) return std::nullopt;
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

  int fd() const { return from_.fd(); }
  /// Passes on complete lines; at the end of the stream also an unfinished one.
  void pump() {
    std::array<char, 65536> buffer{};
    for (;;) {
      const ssize_t count = read(from_.fd(), buffer.data(), buffer.size());
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
    from_ = Descriptor();
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

/// C strings for exec, which last as long as the texts.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// This process's CPUs, as far as a control group lets it use them.
int usable_cpus() {
  const int own = static_cast<int>(launch::own_cpus().size());
  const int quota = launch::cpu_quota();
  return quota > 0 ? std::min(own, quota) : own;
}

/// The start's variables, with `own` in place of those of the same name.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& own, const LocalStart& start) {
  auto all = start.environment;
  for (const auto& [name, value] : own) all[name] = value;
  all.emplace("OMP_NUM_THREADS", cat(std::max(1, usable_cpus() / start.ranks)));
  std::vector<std::string> texts;
  for (const auto& [name, value] : all) texts.push_back(cat(name, "=", value));
  return texts;
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  std::string text = cat("killed by signal ", signal, name == nullptr ? "" : cat(" (SIG", name, ")"));
  if (signal == SIGKILL) text += ": most often by the kernel's out-of-memory killer, see dmesg or journalctl -k";
  return text;
}

/// The ranks of one run on this host, from their start to their end.
class LocalRanks {
 public:
  explicit LocalRanks(const LocalStart& start)
      : start_(start), grace_(start.grace), first_rank_(start.step ? start.step->first_rank : 0) {
    if (start.step) {
      host_ = start.step->host;
      note_.emplace();
    } else {
      server_.emplace("capstan/local");
    }
    for (int local = 0; local < start.ranks; ++local) start_rank(local);
  }

  int wait() {
    while (running() > 0 || !streams_.empty()) {
      poll_once();
      read_signals();
      reap();
      tell_of_silent_end();
      miss_stragglers();
      escalate();
    }
    return exit_code_;
  }

 private:
  std::vector<std::string> environment_of(int local) const {
    if (note_) {
      return environment_with({{"CAPSTAN_LOCAL_RANK", cat(local)},
                               {"CAPSTAN_LOCAL_SIZE", cat(start_.ranks)},
                               {"CAPSTAN_LOCAL_FAILURE", cat(note_->fd())}},
                              start_);
    }
    return environment_with({{"CAPSTAN_RANK", cat(local)},
                             {"CAPSTAN_WORLD_SIZE", cat(start_.ranks)},
                             {"CAPSTAN_RENDEZVOUS", server_->rendezvous().text()},
                             {"CAPSTAN_SECRET", server_->rendezvous().secret}},
                            start_);
  }

  void start_rank(int local) {
    const int rank = first_rank_ + local;
    auto arguments = start_.arguments;
    auto variables = environment_of(local);
    const auto argv = pointers_to(arguments);
    const auto environment = pointers_to(variables);
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
    processes_.push_back(child);
    if (rank == 0) return;
    for (const auto& [ends, to] : {std::pair(out, STDOUT_FILENO), std::pair(err, STDERR_FILENO)}) {
      close(ends[1]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      streams_.push_back(std::make_unique<Stream>(rank, Descriptor(ends[0]), to));
    }
  }

  std::ptrdiff_t running() const {
    return std::count_if(processes_.begin(), processes_.end(), [](pid_t process) { return process != 0; });
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
    for (const pid_t process : processes_) {
      if (process != 0) kill(process, signal);
    }
  }

  void reap() {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      int status = 0;
      if (processes_[i] == 0 || waitpid(processes_[i], &status, WNOHANG) != processes_[i]) continue;
      processes_[i] = 0;
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
    const bool is_orderly = std::find(start_.orderly.begin(), start_.orderly.end(), code) != start_.orderly.end();
    if (code == peer_failed || is_orderly || !first) return;
    if (!WIFSIGNALED(status)) {
      silent_ = {rank, cat("it ended with exit code ", code)};
      return;
    }
    const auto what = cat("was ", signal_text(WTERMSIG(status)));
    log::error(cat("rank ", rank, " ", what));
    publish(rank, "it " + what);
  }

  void publish(int rank, const std::string& what) {
    if (server_) server_->publish_failure(rank, host_, what);
    if (note_) note_->write(rank, host_, what);
  }

  // A rank that ended with an exit code has told the others why, or all end so, each in its time. Who is still there
  // after a second knows nothing of it.
  void tell_of_silent_end() {
    if (!silent_ || running() == 0 || Clock::now() - *failed_at_ < std::chrono::seconds(1)) return;
    publish(silent_->first, silent_->second);
    silent_.reset();
  }

  // Ranks end together. Once one has ended well, no heartbeat tells of another that is suspended or hangs.
  void miss_stragglers() {
    if (failed_at_ || !first_ended_at_ || running() == 0 || Clock::now() - *first_ended_at_ < 5 * grace_) return;
    std::vector<std::string> left;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i] != 0) left.push_back(std::to_string(first_rank_ + static_cast<int>(i)));
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

  const LocalStart& start_;
  const std::chrono::milliseconds grace_;
  const int first_rank_;
  std::string host_ = "this host";
  SignalInbox inbox_;  // before the server: its thread inherits the mask
  std::optional<RendezvousServer> server_;
  std::optional<FailureNote> note_;
  std::vector<pid_t> processes_;  // the ranks' processes; 0: it has ended
  std::vector<std::unique_ptr<Stream>> streams_;
  int exit_code_ = 0;
  bool ending_ = false;  // ranks may be dying of our own signals
  std::optional<Clock::time_point> first_ended_at_;
  std::optional<Clock::time_point> failed_at_;
  std::optional<std::pair<int, std::string>> silent_;  // a rank that ended with an exit code, and what to say of it
};

// That many processes would take the machine down before the first of them could say what is wrong.
void check_count(int n) {
  if (n < 1) throw Error(cat("cannot start ", n, " ranks"), "give -n 1 or more");
  const auto most = std::max(256, 16 * usable_cpus());
  if (n > most) {
    throw Error(cat("cannot start ", n, " ranks on this host: its ", usable_cpus(), " CPUs could never run them"),
                cat("give -n at most ", most, ", as a rule the number of GPUs; `capstan check -n ", n,
                    "` judges a configuration for that many ranks"));
  }
}

}  // namespace

int run_local_ranks(const LocalStart& start) {
  check_count(start.ranks);
  return LocalRanks(start).wait();
}

}  // namespace capstan::peers
