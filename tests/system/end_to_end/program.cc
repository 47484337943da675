#include "program.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_places.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "end_to_end/copies.h"

namespace end_to_end {
namespace {

namespace fs = std::filesystem;
using capstan::cat;

fs::path own_folder() { return fs::canonical("/proc/self/exe").parent_path(); }

const char* variable(const char* name) { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe): one thread

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The parent of a process, from /proc/PID/stat: "pid (name) state ppid …".
pid_t parent_of(const std::string& pid) {
  const auto text = text_of(fs::path("/proc") / pid / "stat");
  const auto close = text.rfind(')');
  return close == std::string::npos ? 0 : std::atoi(text.c_str() + close + 4);
}

bool is_zombie(const std::string& pid) {
  const auto text = text_of(fs::path("/proc") / pid / "stat");
  const auto close = text.rfind(')');
  return close == std::string::npos || text[close + 2] == 'Z';
}

}  // namespace

std::vector<std::string> environment(const Variables& variables) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    bool of_launcher = name == "RANK" || name == "LOCAL_RANK" || name == "WORLD_SIZE" || name == "GROUP_RANK" ||
                       name == "MASTER_ADDR" || name == "MASTER_PORT" || name == "LOCAL_WORLD_SIZE";
    for (const char* prefix : {"SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_", "CAPSTAN_"}) {
      of_launcher = of_launcher || name.rfind(prefix, 0) == 0;
    }
    if (!of_launcher) all[name] = text.substr(equals + 1);
  }
  all["OMP_NUM_THREADS"] = "1";
  for (const auto& [name, value] : variables) all[name] = value;
  std::vector<std::string> out;
  for (const auto& [name, value] : all) out.push_back(cat(name, "=", value));
  return out;
}

fs::path binary_dir() {
  if (const char* given = variable("CAPSTAN_BINARY_DIR")) return given;
  if (fs::exists(fs::path(CAPSTAN_BINARY_DIR) / "bin" / "capstan")) return CAPSTAN_BINARY_DIR;
  return own_folder().parent_path();
}

fs::path source_dir() {
  if (const char* given = variable("CAPSTAN_SOURCE_DIR")) return given;
  if (fs::exists(CAPSTAN_SOURCE_DIR "/configs/quickstart.toml")) return CAPSTAN_SOURCE_DIR;
  for (auto folder = own_folder(); folder != folder.root_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / "configs" / "quickstart.toml")) return folder;
  }
  throw std::runtime_error("the source tree is not found: set CAPSTAN_SOURCE_DIR");
}

std::string fixture(const std::string& kind, const std::string& name) {
  return (binary_dir() / "tests" / "run_fixtures" / kind / (name + ".so")).string();
}

std::string broken_plugin(const std::string& name) {
  return (binary_dir() / "tests" / "fixtures" / "monitor" / (name + ".so")).string();
}

Program::Program(const fs::path& folder, const std::vector<std::string>& arguments, const Variables& variables) {
  static int count = 0;
  out_ = folder / cat("out-", count);
  err_ = folder / cat("err-", count++);
  std::vector<std::string> words{(binary_dir() / "bin" / "capstan").string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto settings = environment(variables);
  const auto argv = pointers(words);
  const auto envp = pointers(settings);
  const auto parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || chdir(folder.c_str()) != 0) _exit(126);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  std::signal(SIGHUP, SIG_DFL);  // whether or not the tests run under nohup
  execve(argv.front(), argv.data(), envp.data());
  _exit(127);
}

Program::~Program() {
  if (running()) {
    kill_all();
    waitpid(pid_, &status_, 0);
  }
}

std::string Program::out() const { return text_of(out_); }

std::string Program::err() const { return text_of(err_); }

bool Program::running() {
  if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return !ended_;
}

bool Program::wait_for(const std::string& text, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (out().find(text) == std::string::npos) {
    if (!running() || std::chrono::steady_clock::now() > deadline) return out().find(text) != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void Program::signal(int number) const { kill(pid_, number); }

std::vector<pid_t> Program::children() const {
  std::vector<pid_t> out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || is_zombie(name)) continue;
    if (parent_of(name) == pid_) out.push_back(std::atoi(name.c_str()));
  }
  return out;
}

pid_t Program::rank(int number) const {
  for (const auto child : children()) {
    const auto variables = text_of(cat("/proc/", child, "/environ"));
    if (variables.find(cat("CAPSTAN_RANK=", number, '\0')) != std::string::npos) return child;
  }
  return -1;
}

std::vector<pid_t> still_running(const std::vector<pid_t>& processes) {
  std::vector<pid_t> out;
  for (const auto process : processes) {
    if (!is_zombie(std::to_string(process))) out.push_back(process);
  }
  return out;
}

// Children may be in process groups of their own.
void Program::kill_all() const {
  const auto started = children();
  kill(-pid_, SIGKILL);
  for (const auto child : started) kill(child, SIGKILL);
}

Outcome Program::wait(std::chrono::seconds limit) {
  Outcome outcome;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (running()) {
    if (!outcome.timed_out && std::chrono::steady_clock::now() > deadline) {
      outcome.timed_out = true;
      kill_all();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  outcome.code = WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_);
  outcome.out = out();
  outcome.err = err();
  return outcome;
}

Workspace::~Workspace() {
  if (variable("CAPSTAN_KEEP") != nullptr) folder_.keep();
}

std::string Workspace::where(const std::string& file, const std::string& text) const {
  return test::line_of(file, text);
}

Outcome Workspace::run(const std::vector<std::string>& arguments, const Variables& variables) const {
  if (may_be_copies(arguments, variables)) return run_in_copies(folder(), arguments, variables);
  return start(arguments, variables);
}

Outcome Workspace::start(const std::vector<std::string>& arguments, const Variables& variables) const {
  return Program(folder(), arguments, variables).wait();
}

// The linker writes a file a process.
std::string opened_by(const Workspace& work, const std::vector<std::string>& arguments) {
  const auto folder = work.folder() / "linker";
  fs::remove_all(folder);
  fs::create_directories(folder);
  work.start(arguments, {{"LD_DEBUG", "files"}, {"LD_DEBUG_OUTPUT", (folder / "said").string()}});
  std::string all;
  for (const auto& file : capstan::entries_if_there(folder)) {
    for (const auto& line : capstan::split(capstan::read_file(file), '\n'))
      if (line.find("calling init: ") != std::string::npos) all += line + "\n";
  }
  return all;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string small_config(const test::Changes& changes, const std::string& more) {
  return test::small_config(source_dir(), changes, more);
}

}  // namespace end_to_end
