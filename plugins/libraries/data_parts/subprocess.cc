#include <capstan/data_parts/subprocess.h>

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A descriptor that is closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// Our end and the program's.
struct Ends {
  Descriptor ours;
  Descriptor its;
};

Ends open_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(cat("cannot open a pipe: ", meaning_of(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Writing into a socket that no process reads is an error for the writer; into such a pipe it is a signal to the
// process.
Ends open_input(const Program& program) {
  if (!program.input_file.empty()) {
    Descriptor file(::open(program.input_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) throw FileError(program.input_file, "read", errno);
    return {Descriptor(), std::move(file)};
  }
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Error(cat("cannot open a socket: ", meaning_of(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// What the program's process is made of. Pointers, since it must not allocate between fork and exec.
struct ChildSide {
  std::vector<char*> arguments;
  std::array<int, 3> streams;
  int fault;  ///< where it writes errno if it cannot begin
  pid_t parent;
};

// Only what is safe between fork and exec.
[[noreturn]] void become_program(const ChildSide& side) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != side.parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);  // NOLINT(cert-err33-c): it cannot fail
  // Whatever libraries have left open is not the program's, and holds our pipes open.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  bool is_ready = true;
  for (int stream = 0; stream < 3; ++stream) is_ready = is_ready && ::dup2(side.streams.at(stream), stream) == stream;
  if (is_ready) ::execvp(side.arguments.front(), side.arguments.data());
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(side.fault, &reason, sizeof reason);
  ::_exit(127);
}

/// A started program; its group is gone when the object is.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (!is_reaped_) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended() const {
    siginfo_t info{};
    const auto id = static_cast<id_t>(pid_);
    while (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno != EINTR) return true;
    }
    return info.si_pid != 0;
  }
  /// Ends all processes of the group. Its number is no other's before the program itself is waited for.
  int end() {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // it may not have made its group yet
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    is_reaped_ = true;
    return status;
  }
  void kill_group() const { ::kill(-pid_, SIGKILL); }

 private:
  pid_t pid_;
  bool is_reaped_ = false;
};

// Why the program did not begin; 0: it did.
int start_fault(const Descriptor& end) {
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(end.fd(), &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  return got == sizeof reason ? reason : 0;
}

/// The three streams of a running program, from our side.
class Streams {
 public:
  Streams(const Program& program, EndedProgram& ended, Ends& in, Ends& out, Ends& errors)
      : program_(program),
        ended_(ended),
        in_(std::move(in.ours)),
        out_(std::move(out.ours)),
        errors_(std::move(errors.ours)),
        waiting_(program.input) {
    for (const auto* end : {&in_, &out_, &errors_}) {
      if (end->is_open()) ::fcntl(end->fd(), F_SETFL, O_NONBLOCK);
    }
  }

  bool is_open() const { return out_.is_open() || errors_.is_open(); }
  /// Moves what can be moved, after waiting for so long at most. Whether anything was, or a stream ended.
  bool move(milliseconds wait) {
    std::array<pollfd, 3> wanted{
        {{in_.fd(), POLLOUT, 0}, {out_.fd(), POLLIN, 0}, {errors_.fd(), POLLIN, 0}}};  // poll skips those below 0
    if (::poll(wanted.data(), wanted.size(), static_cast<int>(wait.count())) <= 0) return false;
    bool moved = wanted[0].revents != 0 && give();
    moved = (wanted[1].revents != 0 && take(out_, true)) || moved;
    return (wanted[2].revents != 0 && take(errors_, false)) || moved;
  }

 private:
  bool give() {
    if (waiting_.empty() && program_.more_input) waiting_ = program_.more_input();
    if (waiting_.empty()) {
      in_.close();
      return true;
    }
    const auto sent = ::send(in_.fd(), waiting_.data(), waiting_.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (sent < 0) {  // it wants no more input
      in_.close();
      return true;
    }
    waiting_.erase(0, static_cast<std::size_t>(sent));
    return true;
  }

  bool take(Descriptor& from, bool is_output) {
    std::array<char, 65536> part{};
    const auto got = ::read(from.fd(), part.data(), part.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      from.close();
      return true;
    }
    const std::string_view piece(part.data(), static_cast<std::size_t>(got));
    is_output ? keep_output(piece) : keep_errors(piece);
    return true;
  }

  void keep_output(std::string_view piece) {
    if (program_.on_output) return program_.on_output(piece);
    const auto room = program_.most_output - ended_.output.size();
    ended_.is_cut = ended_.is_cut || piece.size() > room;
    ended_.output += piece.substr(0, room);
  }

  // The last ones say why a program ended.
  void keep_errors(std::string_view piece) {
    if (program_.on_errors) program_.on_errors(piece);
    ended_.errors += piece;
    if (ended_.errors.size() > program_.most_errors)
      ended_.errors.erase(0, ended_.errors.size() - program_.most_errors);
  }

  const Program& program_;
  EndedProgram& ended_;
  Descriptor in_;
  Descriptor out_;
  Descriptor errors_;
  std::string waiting_;  // input that was not taken yet
};

// Until the program has ended and all that it wrote is read, or it hangs, or a stop is asked for.
void watch(const Child& child, Streams& streams, EndedProgram& ended, const std::stop_token& stop) {
  constexpr milliseconds look{50};
  constexpr milliseconds last_look{2};  // its streams are closed: it ends
  auto last = Clock::now();
  bool is_over = false;
  while (!stop.stop_requested()) {
    if (!is_over && child.has_ended()) {
      is_over = true;
      child.kill_group();  // processes that it has left would hold its streams open
    }
    if (streams.move(is_over || !streams.is_open() ? last_look : look)) {
      last = Clock::now();
    } else if (is_over) {
      return;
    } else if (ended.patience.count() > 0 && Clock::now() - last >= ended.patience) {
      ended.is_hung = true;
      return;
    }
  }
}

std::string signal_words(int signal) {
  const char* name = ::sigabbrev_np(signal);
  const std::string known = name == nullptr ? "" : cat(" (SIG", name, ")");
  const auto* reason = signal == SIGKILL ? ", most often the kernel's out-of-memory killer: see dmesg" : "";
  return cat("was ended by signal ", signal, known, reason);
}

}  // namespace

std::string EndedProgram::text() const {
  if (is_hung) {
    const auto seconds = static_cast<double>(patience.count()) / 1000;
    return cat("gave no sign of life for ", number_text(seconds), " s and was ended");
  }
  return signal != 0 ? signal_words(signal) : cat("ended with exit status ", status);
}

std::string EndedProgram::last_words() const {
  const auto lines = split(trim(errors), '\n');
  auto last = lines.empty() ? std::string() : trim(lines.back());
  last.erase(0, last.find_first_not_of('.'));  // signs of life
  return last.empty() ? "" : cat("; it said: ", printable(last));
}

EndedProgram run_program(const Program& program) { return run_program(program, {}); }

EndedProgram run_program(const Program& program, const std::stop_token& stop) {
  CAPSTAN_ASSERT(!program.arguments.empty());
  EndedProgram ended;
  ended.patience = program.patience;
  auto in = open_input(program), out = open_pipe(), errors = open_pipe(), fault = open_pipe();
  ChildSide side{{}, {in.its.fd(), out.its.fd(), errors.its.fd()}, fault.its.fd(), ::getpid()};
  for (const auto& argument : program.arguments) side.arguments.push_back(const_cast<char*>(argument.c_str()));
  side.arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(cat("cannot start ", program.arguments.front(), ": ", meaning_of(errno)));
  if (pid == 0) become_program(side);
  Child child(pid);
  for (auto* end : {&in, &out, &errors, &fault}) end->its.close();
  if (const int reason = start_fault(fault.ours); reason != 0)
    throw Error(cat("cannot start ", program.arguments.front(), ": ", meaning_of(reason)));
  Streams streams(program, ended, in, out, errors);
  watch(child, streams, ended, stop);
  const int status = child.end();
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  return ended;
}

std::string python_program(const std::string& named) {
  if (!named.empty()) return named;
  const auto environment = data::process_environment()("VIRTUAL_ENV").value_or("");
  return environment.empty() ? "python3" : environment + "/bin/python3";
}

}  // namespace capstan
