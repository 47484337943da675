// What leaves for people holds no terminal's commands.
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "support/folder.h"

namespace terminal_test {

using namespace capstan;

namespace {

// What this writes to standard output.
std::string output_of(const std::function<void()>& fn) {
  const test::Folder folder;
  const auto file = (folder / "out").string();
  std::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO);
  const int into = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(into, STDOUT_FILENO);
  ::close(into);
  fn();
  std::fflush(stdout);
  ::dup2(kept, STDOUT_FILENO);
  ::close(kept);
  return read_file(file);
}

}  // namespace

TEST_CASE("lines and tabs of a text are printed, a terminal's commands and reversed directions are shown") {
  CHECK(output_of([] { terminal::print("a\tb\n\033]0;title\a\u009b2J\r\u202egpj\n"); }) ==
        "a\tb\n\\x1b]0;title\\x07\\u009b2J\\x0d\\u202egpj\n");
  CHECK(output_of([] { terminal::print("a,b\r\nc,\rd\r\n"); }) == "a,b\r\nc,\\x0dd\r\n");
  CHECK(output_of([] { terminal::print_dimmed("a\033[0mb"); }) == "\033[2ma\\x1b[0mb\033[0m");
  CHECK(output_of([] { terminal::print_screen("a\033[1m\n"); }) == "\033[H\033[Ja\\x1b[1m\n");
}

TEST_CASE("a stream prints the same, and cuts no character in two") {
  CHECK(output_of([] {
          terminal::PrintedStream out(terminal::print);
          out << "gr\xc3";
          out << "\xbc\xc3\x9f" << 7 << '\n' << "\033[31m";
        }) == "grüß7\n\\x1b[31m");
}

}  // namespace terminal_test
