#include "child.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

namespace sweep {

using namespace capstan;

namespace {

/// Both ends of a pipe, as long as they are open.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(cat("cannot open a pipe: ", meaning_of(errno)));
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close(std::size_t end) {
    if (ends.at(end) >= 0) ::close(ends.at(end));
    ends.at(end) = -1;
  }
  std::string read_all() const {
    std::string text;
    std::array<char, 4096> part{};
    for (;;) {
      const auto got = ::read(ends[0], part.data(), part.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return text;
      text.append(part.data(), static_cast<std::size_t>(got));
    }
  }
};

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Error(cat("cannot wait for a program: ", meaning_of(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Ended run_program(const std::vector<std::string>& command, bool capture) {
  CAPSTAN_ASSERT(!command.empty());
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const auto& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Pipe pipe;
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  if (capture) {
    posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], STDERR_FILENO);
  }
  if (!capture) terminal::flush_output();  // what we have printed comes first
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv.front(), &actions, nullptr, argv.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw Error(cat("cannot start ", command.front(), ": ", meaning_of(failed)));
  pipe.close(1);
  Ended ended;
  if (capture) ended.said = pipe.read_all();
  ended.code = wait_for(child);
  return ended;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace sweep
