#include "fuzz/judge.h"

#include <capstan/base/error.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>

#include "fuzz/mutate.h"
#include "support/folder.h"

namespace fuzz {
namespace {

using capstan::cat;
using Clock = std::chrono::steady_clock;

constexpr unsigned limit_s = 10;  // no file of a few thousand bytes takes so long

// What a child tells its parent, in memory that both see.
struct Told {
  std::uint64_t number = 0;
  std::uint64_t done = 0;
  std::array<char, 4000> what{};
  void say(const std::string& text) { std::strncpy(what.data(), text.c_str(), what.size() - 1); }
};

class Shared {
 public:
  Shared() : told_(::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (told_ == MAP_FAILED) throw std::runtime_error("no memory to share");
    new (told_) Told;
  }
  ~Shared() { ::munmap(told_, sizeof(Told)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  Told* operator->() const { return static_cast<Told*>(told_); }

 private:
  void* told_;
};

// Runs `work` in a child; how it ended where that is no exit.
std::string apart(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no process can be made");
  if (child == 0) {
    for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGTERM})
      std::signal(signal, SIG_DFL);  // Catch's
    work();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) continue;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return cat("it takes longer than ", limit_s, " s");
  if (WIFSIGNALED(status)) return cat("it ends the process by signal ", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : cat("it ends the process with code ", WEXITSTATUS(status));
}

}  // namespace

std::string fault_of_message(const std::string& message, const std::string& file, const std::string& input) {
  if (message.find(file) == std::string::npos) return "the message does not name " + file + ": " + message;
  // A limit says what to do by itself.
  if (message.find("    fix: ") == std::string::npos && message.find("must be ") == std::string::npos)
    return "the message does not say what to do: " + message;
  for (const char* raw :
       {"exception", "syntax error", "parse error", "std::", "basic_string", "vector::", "toml::", "filesystem error",
        "Error while", "TOML_", "stoi", "stod", "nlohmann", "bad_alloc", "assertion", "type must be"}) {
    if (message.find(raw) != std::string::npos && input.find(raw) == std::string::npos)
      return cat("the message has words of a library (", raw, "): ", message);
  }
  auto text = message;
  std::erase_if(text, [](char c) { return c == '\n' || c == '\t'; });
  if (capstan::printable(text) != text) return "the message has control characters: " + message;
  return {};
}

std::string judged(const Target& target, const std::filesystem::path& folder, const std::string& input) {
  {
    std::ofstream out(folder / target.file, std::ios::binary | std::ios::trunc);
    out << input;
  }
  try {
    target.read(folder);
  } catch (const capstan::Error& error) {
    return fault_of_message(error.what(), target.file, input);
  } catch (const std::exception& error) {
    return cat("a bug: ", error.what());
  }
  return {};
}

std::string judged_apart(const Target& target, const std::string& input) {
  const test::Folder folder;
  for (const auto& [name, text] : target.beside) folder.write(name, text);
  const Shared told;
  const auto ended = apart([&] {
    ::alarm(limit_s);
    told->say(judged(target, folder.path(), input));
  });
  return ended.empty() ? std::string(told->what.data()) : ended;
}

std::uint64_t fuzz_for(const Target& target, std::uint64_t first, double seconds, std::vector<Fault>& faults) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const Mutator mutator(target.seeds, target.words);
  const test::Folder folder;
  for (const auto& [name, text] : target.beside) folder.write(name, text);
  const Shared told;
  told->number = first;
  constexpr std::size_t most_faults = 3;  // per target; the first ones are worth fixing
  while (Clock::now() < until && faults.size() < most_faults) {
    const auto ended = apart([&] {
      std::string fault;
      while (fault.empty() && Clock::now() < until) {
        ::alarm(limit_s);
        fault = judged(target, folder.path(), mutator.input(told->number));
        if (fault.empty()) ++told->number;
        ++told->done;
      }
      told->say(fault);
    });
    const std::string what = ended.empty() ? std::string(told->what.data()) : ended;
    if (!what.empty()) faults.push_back({told->number++, what});
    told->what.front() = '\0';
  }
  return told->done;
}

}  // namespace fuzz
