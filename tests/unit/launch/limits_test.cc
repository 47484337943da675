// Limits of the shell that a process cannot work with.
#include "launch/limits.h"

#include <capstan_catch.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include "support/errors.h"

namespace limits_test {

using namespace capstan;

namespace {

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

std::string start_fault(std::uint64_t mapped, std::uint64_t memory, std::uint64_t stack) {
  std::array<char, 512> text{};
  const bool found = launch::start_limit_fault(mapped, memory, stack, text.data(), text.size());
  CHECK(found == (text[0] != '\0'));
  return text.data();
}

// Whether this holds in a process with such a limit of open files.
template <class Holds>
bool holds_with(rlim_t soft, rlim_t hard, const Holds& holds) {
  const auto child = ::fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    ::_exit(::setrlimit(RLIMIT_NOFILE, &limit) == 0 && holds() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

TEST_CASE("too little memory and stack for LibTorch are named, with what is needed") {
  CHECK(start_fault(400000, unlimited, unlimited).empty());
  CHECK(start_fault(400000, unlimited, 8192).empty());  // the usual limits
  CHECK(start_fault(400000, 4000000, 8192).empty());
  CHECK(start_fault(400000, 500000, 8192) ==
        "capstan: error\nulimit -v limits this process's memory to 500000 KiB, but this program needs 1055360 KiB\n"
        "    fix: ulimit -v 1055360, or ulimit -v unlimited\n");
  CHECK_THAT(start_fault(400000, unlimited, 64), Contains("ulimit -s limits the stack to 64 KiB") &&
                                                     Contains("needs 800 KiB") && Contains("fix: ulimit -s 800"));
}

TEST_CASE("open files are raised to what is needed where the hard limit lets them, and refused where it does not") {
  CHECK(launch::files_of_rank(2) <= 64);
  CHECK(launch::files_of_rank(200) <= 1024);  // the usual limit
  CHECK(holds_with(16, 16, [] {
    const auto said = test::error_of([] { launch::need_open_files(40, "a rank of 2"); });
    return said.find("ulimit -n limits this process to 16 open files, but a rank of 2 needs 40") == 0 &&
           said.find("ulimit -n 40") != std::string::npos;
  }));
  CHECK(holds_with(16, 64, [] {
    launch::need_open_files(40, "a rank of 2");
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_cur == 40;
  }));
  CHECK(holds_with(64, 64, [] { return test::error_of([] { launch::need_open_files(40, "a run"); }).empty(); }));
}

}  // namespace limits_test
