#include "end_to_end/copies.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "cli/program.h"
#include "end_to_end/gpus.h"
#include "peers/rendezvous_server.h"

namespace end_to_end {
namespace {

namespace fs = std::filesystem;
using capstan::cat;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds limit(240);

// What starts ranks where it is given a number of them.
bool starts_ranks(const std::string& command) {
  constexpr std::array starters{"run", "eval", "generate", "chat", "preflight", "lr_find"};
  return std::find(starters.begin(), starters.end(), command) != starters.end();
}

// How many ranks a command line starts; 0: that is for the program itself to judge.
int ranks_of(const std::vector<std::string>& arguments) {
  if (arguments.empty() || !starts_ranks(arguments.front())) return 1;
  const auto says_ranks = [](const std::string& word) { return word == "-n" || word.starts_with("--ranks"); };
  const auto flag = std::find_if(arguments.begin(), arguments.end(), says_ranks);
  if (flag == arguments.end()) return 1;
  const auto text = flag + 1 == arguments.end() ? std::string() : flag[1];
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr int most = 16;
  return error == std::errc() && end == text.data() + text.size() && number <= most ? number : 0;
}

// How copies are told where the others are: each takes one record, which is written and read as a whole.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void write(std::string text) const {
    text.resize(record);
    if (::write(ends_[1], text.data(), record) != std::ssize(text)) throw std::runtime_error("cannot write a pipe");
  }
  std::string read() const {
    std::array<char, record> text{};
    if (::read(ends_[0], text.data(), record) != std::ssize(text)) ::_exit(126);
    return text.data();
  }

 private:
  static constexpr std::size_t record = 256;
  std::array<int, 2> ends_{-1, -1};
};

struct Place {
  fs::path folder, out, err;
};

// One rank of a command.
struct Copy {
  Place place;
  pid_t pid = -1;
  std::optional<int> status;
};

// As after exec: no handler of Catch's, no other descriptor, and the program's own variables.
void forget_tests(const Place& place, pid_t parent, std::vector<std::string>& variables) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent || ::chdir(place.folder.c_str()) != 0) ::_exit(126);
  for (int number = 1; number < NSIG; ++number) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open(place.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  ::dup2(::open(place.err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  ::clearenv();                                                // NOLINT(concurrency-mt-unsafe): one thread
  for (auto& variable : variables) ::putenv(variable.data());  // NOLINT(concurrency-mt-unsafe): one thread
}

// What `main` does. What is thrown here must not come to Catch: it ends the process as it ends the program.
[[noreturn]] void be_program(std::vector<std::string> words) noexcept {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int code = capstan::cli::program(static_cast<int>(words.size()), argv.data());
  std::fflush(nullptr);
  std::_Exit(code);
}

void need_one_thread() {
  const fs::directory_iterator threads("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) != 1)
    throw std::runtime_error("this process has several threads, of which a copy would have only one");
}

// Starts a copy. One that has peers waits until the pipe says where they are.
Copy start(const Place& place, const std::vector<std::string>& arguments, const Variables& variables,
           const Pipe* peers) {
  auto settings = environment(variables);
  std::vector<std::string> words{(binary_dir() / "bin" / "capstan").string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto parent = ::getpid();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid > 0) return {place, pid, {}};
  forget_tests(place, parent, settings);
  if (peers != nullptr) {
    const auto found = peers->read();
    const auto space = found.find(' ');
    ::setenv("CAPSTAN_RENDEZVOUS", found.substr(0, space).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    ::setenv("CAPSTAN_SECRET", found.substr(space + 1).c_str(), 1);     // NOLINT(concurrency-mt-unsafe): one thread
  }
  be_program(std::move(words));
}

int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// Waits for all, and kills them when that takes too long. `ended`: called for each that ended badly, with its number.
template <class F>
bool wait_for_all(std::vector<Copy>& copies, const F& ended) {
  const auto deadline = Clock::now() + limit;
  bool timed_out = false;
  for (std::size_t running = copies.size(); running > 0;) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      int status = 0;
      if (copies[i].status || ::waitpid(copies[i].pid, &status, WNOHANG) != copies[i].pid) continue;
      copies[i].status = status;
      --running;
      if (status != 0) ended(static_cast<int>(i), status);
    }
    if (!timed_out && Clock::now() > deadline) {
      timed_out = true;
      for (const auto& copy : copies) {
        if (!copy.status) ::kill(copy.pid, SIGKILL);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return timed_out;
}

std::string lines_of_rank(int rank, const fs::path& file) {
  std::string out;
  auto text = capstan::read_file(file);
  if (rank == 0 || text.empty()) return text;
  if (text.back() == '\n') text.pop_back();
  for (const auto& line : capstan::split(text, '\n')) out += cat("[rank ", rank, "] ", line, "\n");
  return out;
}

Outcome run_alone(const Place& place, const std::vector<std::string>& arguments, const Variables& variables) {
  std::vector<Copy> copies{start(place, arguments, variables, nullptr)};
  Outcome outcome;
  outcome.timed_out = wait_for_all(copies, [](int, int) {});
  const int status = *copies.front().status;
  outcome.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  outcome.out = capstan::read_file(place.out);
  outcome.err = capstan::read_file(place.err);
  return outcome;
}

// The exit code is that of the first rank that failed by itself, as the launcher's is.
Outcome run_ranks(const Place& place, int ranks, const std::vector<std::string>& arguments, Variables variables) {
  const Pipe peers;
  std::vector<Copy> copies;
  variables["CAPSTAN_WORLD_SIZE"] = std::to_string(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    variables["CAPSTAN_RANK"] = std::to_string(rank);
    const Place own{place.folder, cat(place.out.string(), "-", rank), cat(place.err.string(), "-", rank)};
    copies.push_back(start(own, arguments, variables, &peers));
  }
  capstan::peers::RendezvousServer server("capstan/local");  // which has a thread: it begins after the copies
  for (int rank = 0; rank < ranks; ++rank)
    peers.write(cat(server.rendezvous().text(), " ", server.rendezvous().secret));
  constexpr int peer_failed = static_cast<int>(capstan::ExitCode::peer_failed);
  Outcome outcome;
  outcome.timed_out = wait_for_all(copies, [&](int rank, int status) {
    const int code = code_of(status);
    if (outcome.code == 0 || (outcome.code == peer_failed && code != peer_failed)) outcome.code = code;
    // One that ended with an exit code has told the others why, or all end so.
    if (WIFSIGNALED(status))
      server.publish_failure(rank, "this host", cat("it was killed by signal ", WTERMSIG(status)));
  });
  for (int rank = 0; rank < ranks; ++rank) {
    outcome.out += lines_of_rank(rank, copies[rank].place.out);
    outcome.err += lines_of_rank(rank, copies[rank].place.err);
  }
  return outcome;
}

bool shows_gpus() {
  static const bool shown = visible_gpus() > 0;
  return shown;
}

}  // namespace

bool may_be_copies(const std::vector<std::string>& arguments, const Variables& variables) {
  if (std::getenv("CAPSTAN_TEST_STARTS") != nullptr || shows_gpus()) return false;  // NOLINT(concurrency-mt-unsafe)
  const auto is_any = [&](const std::string& word) {
    return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
  };
  if (is_any("sweep") || is_any("--spawn-local")) return false;
  const int ranks = ranks_of(arguments);
  const bool has_launcher = std::any_of(variables.begin(), variables.end(),
                                        [](const auto& variable) { return variable.first.starts_with("SLURM_"); });
  return ranks == 1 || (ranks > 1 && !has_launcher);
}

Outcome run_in_copies(const fs::path& folder, const std::vector<std::string>& arguments, const Variables& variables) {
  static int count = 0;
  need_one_thread();
  const Place place{folder, folder / cat("copy-out-", count), folder / cat("copy-err-", count)};
  ++count;
  const int ranks = ranks_of(arguments);
  return ranks == 1 ? run_alone(place, arguments, variables) : run_ranks(place, ranks, arguments, variables);
}

}  // namespace end_to_end
