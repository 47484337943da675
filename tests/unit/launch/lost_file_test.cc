// What a process says when the file system gives no more of a file that it has mapped.
#include "launch/lost_file.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "base/mapped_files.h"
#include "support/folder.h"

namespace lost_file_test {

using namespace capstan;

namespace {

// How a process ends that does this, and what it prints.
int end_of(const test::Folder& folder, const std::function<void()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : {SIGBUS, SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);  // Catch's
    if (std::freopen((folder.path() / "err").c_str(), "w", stderr) == nullptr) ::_exit(99);
    launch::report_lost_files();
    work();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

// Reads a byte of each page.
int sum_of(const MappedFile& file) {
  volatile int sum = 0;
  for (std::size_t at = 0; at < file.size(); at += 4096) sum = sum + static_cast<int>(file.data()[at]);
  return sum;
}

}  // namespace

TEST_CASE("a mapped file that loses its pages ends the process in words that name it, and the others are told") {
  const test::Folder folder;
  const auto path = folder.write("weights.safetensors", std::string(40000, 'x'));
  const auto status = end_of(folder, [&] {
    launch::tell_of_lost_files([&](const std::string& error) { write_file(folder.path() / "told", error); });
    const MappedFile file(path);
    std::filesystem::resize_file(path, 8192);
    ::_exit(sum_of(file) == 0 ? 98 : 97);
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::failure));
  const auto said = path + ": it has become shorter while it was read: byte 8192 is gone\n    fix: start again when ";
  CHECK_THAT(read_file(folder.path() / "err"), Contains("capstan: error\n" + said));
  CHECK_THAT(read_file(folder.path() / "told"), Contains(said));
}

TEST_CASE("SIGBUS that is of no mapped file ends the process as it always did") {
  const test::Folder folder;
  const auto status = end_of(folder, [] { std::raise(SIGBUS); });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  CHECK(read_file(folder.path() / "err").empty());
}

TEST_CASE("an address is found in the file that is mapped there, as long as it is") {
  const test::Folder folder;
  const auto path = folder.write("a", std::string(5000, 'x'));
  const std::byte* begin = nullptr;
  {
    const MappedFile file(path);
    begin = file.data();
    for (const std::size_t at : {std::size_t{0}, std::size_t{4999}}) {
      const auto found = mapped_byte_at(begin + at);
      REQUIRE(found);
      CHECK(found->file == path);
      CHECK(found->offset == at);
    }
    CHECK_FALSE(mapped_byte_at(begin + 5000));
    CHECK_FALSE(mapped_byte_at(begin - 1));
  }
  CHECK_FALSE(mapped_byte_at(begin));
}

}  // namespace lost_file_test
