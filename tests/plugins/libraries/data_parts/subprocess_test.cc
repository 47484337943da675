#include <capstan/data_parts/subprocess.h>

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "support/folder.h"

namespace subprocess_test {

using namespace capstan;
using std::chrono::milliseconds;

namespace {

Program shell(const std::string& script) { return {.arguments = {"sh", "-c", script}}; }

bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0; }

// A killed process is there until its new parent has waited for it.
bool goes(pid_t pid) {
  for (int look = 0; look < 200 && is_alive(pid); ++look) std::this_thread::sleep_for(milliseconds(10));
  return !is_alive(pid);
}

}  // namespace

TEST_CASE("a program's streams and exit status are told apart") {
  auto program = shell("cat; echo wrong >&2; exit 3");
  program.input = "to be repeated";
  const auto ended = run_program(program);
  CHECK(ended.output == "to be repeated");
  CHECK(ended.errors == "wrong\n");
  CHECK(ended.status == 3);
  CHECK_FALSE(ended.succeeded());
  CHECK(ended.text() == "ended with exit status 3");
  CHECK(run_program(shell("true")).succeeded());
}

TEST_CASE("megabytes in both directions pass, and no more is kept than was asked for") {
  auto program = shell("cat; cat /dev/zero | head -c 3000000 >&2");
  int pieces = 0;
  program.more_input = [&] { return pieces++ < 5 ? std::string(1000000, 'x') : std::string(); };
  std::size_t seen = 0;
  program.on_output = [&](std::string_view piece) { seen += piece.size(); };
  auto ended = run_program(program);
  CHECK(seen == 5000000);
  CHECK(ended.output.empty());
  CHECK(ended.errors.size() == program.most_errors);
  program = shell("head -c 100000 /dev/zero; echo end >&2");
  program.most_output = 10;
  ended = run_program(program);
  CHECK(ended.output.size() == 10);
  CHECK(ended.is_cut);
  CHECK(ended.errors == "end\n");
}

TEST_CASE("input may be a file, and may be left unread") {
  const test::Folder folder;
  auto program = shell("cat");
  program.input_file = folder.write("in", "of the file");
  CHECK(run_program(program).output == "of the file");
  program.input_file = folder / "absent";
  CHECK_THROWS_AS(run_program(program), FileError);
  program = shell("exec <&-; echo done");
  program.input = std::string(1000000, 'x');
  CHECK(run_program(program).output == "done\n");
}

TEST_CASE("a program that hangs is killed, with what it has started") {
  auto program = shell("sleep 100 & echo $!; sleep 100");
  program.patience = milliseconds(200);
  const auto ended = run_program(program);
  CHECK(ended.is_hung);
  CHECK(ended.text() == "gave no sign of life for 0.2 s and was ended");
  CHECK(goes(static_cast<pid_t>(std::stoi(ended.output))));
}

TEST_CASE("a program is killed when a stop is asked for") {
  std::stop_source source;
  auto program = shell("echo begun; sleep 100");
  program.on_output = [&](std::string_view) { source.request_stop(); };
  const auto ended = run_program(program, source.get_token());
  CHECK(ended.signal == SIGKILL);
  CHECK_FALSE(ended.is_hung);
}

TEST_CASE("a sign of life is enough, and a process that it leaves holds nothing up") {
  auto program = shell("for i in 1 2 3 4 5 6; do sleep 0.1; echo $i >&2; done; sleep 100 & echo $!");
  program.patience = milliseconds(400);
  const auto ended = run_program(program);
  CHECK(ended.succeeded());
  CHECK(goes(static_cast<pid_t>(std::stoi(ended.output))));
}

TEST_CASE("a signal is named, and so is a program that is not there") {
  const auto ended = run_program(shell("kill -SEGV $$"));
  CHECK(ended.signal == SIGSEGV);
  CHECK(ended.text() == "was ended by signal 11 (SIGSEGV)");
  try {
    run_program({.arguments = {"no-such-program"}});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.diagnostics().front().what == cat("cannot start no-such-program: ", meaning_of(ENOENT)));
  }
}

TEST_CASE("what a program said last, and which Python is meant") {
  CHECK(run_program(shell("echo one >&2; echo ' ..two ' >&2; exit 1")).last_words() == "; it said: two");
  CHECK(run_program(shell("echo out")).last_words().empty());
  CHECK(python_program("mine") == "mine");
  const char* before = std::getenv("VIRTUAL_ENV");
  const std::string was = before == nullptr ? "" : before;
  ::setenv("VIRTUAL_ENV", "/env", 1);
  CHECK(python_program("") == "/env/bin/python3");
  ::unsetenv("VIRTUAL_ENV");
  CHECK(python_program("") == "python3");
  if (before != nullptr) ::setenv("VIRTUAL_ENV", was.c_str(), 1);
}

TEST_CASE("an exception of a callback leaves no process") {
  auto program = shell("echo $$; sleep 100");
  pid_t pid = 0;
  program.on_output = [&](std::string_view piece) {
    pid = static_cast<pid_t>(std::stoi(std::string(piece)));
    throw std::runtime_error("enough");
  };
  CHECK_THROWS_AS(run_program(program), std::runtime_error);
  CHECK(goes(pid));
}

TEST_CASE("the program goes with the process that runs it") {
  const test::Folder folder;
  const auto note = (folder / "pid").string();
  const pid_t runner = ::fork();
  REQUIRE(runner >= 0);
  if (runner == 0) {
    run_program(shell(cat("echo $$ > ", note, ".new; mv ", note, ".new ", note, "; exec sleep 100")));
    ::_exit(0);
  }
  for (int look = 0; look < 500 && !is_file(note); ++look) std::this_thread::sleep_for(milliseconds(10));
  const auto pid = static_cast<pid_t>(std::stoi(run_program({.arguments = {"cat", note}}).output));
  CHECK(is_alive(pid));
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  CHECK(goes(pid));
}

}  // namespace subprocess_test
