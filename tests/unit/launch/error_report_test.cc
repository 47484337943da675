// What ends a run without being an Error, in words.
#include "launch/error_report.h"

#include <capstan_catch.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "support/errors.h"

namespace error_report_test {

using namespace capstan;

namespace {

template <class F>
std::string words_of(F&& fn) {
  return test::words_of(launch::in_words, fn);
}

}  // namespace

TEST_CASE("a host without memory and a file system that refuses are no bugs") {
  CHECK_THAT(words_of([] { throw std::bad_alloc(); }), Contains("this host has no memory left") && Contains("--mem"));
  CHECK_THAT(words_of([] {
               throw std::filesystem::filesystem_error("status", "/a/b",
                                                       std::error_code(EACCES, std::generic_category()));
             }),
             Contains("/a/b: cannot use it: Permission denied (EACCES)") && Contains("fix: "));
  CHECK_THAT(words_of([] { throw std::system_error(EAGAIN, std::generic_category()); }),
             Contains("no more threads can be started: Resource temporarily unavailable") && Contains("ulimit -u"));
  CHECK_THAT(words_of([] { throw std::system_error(ETIMEDOUT, std::generic_category(), "127.0.0.1:1: no answer"); }),
             Contains("127.0.0.1:1: no answer: Connection timed out (ETIMEDOUT)"));
  CHECK(words_of([] { throw std::system_error(EDEADLK, std::generic_category()); }).empty());
  CHECK(words_of([] { throw Error("known"); }).empty());
  CHECK(words_of([] { throw std::logic_error("a bug"); }).empty());
}

}  // namespace error_report_test
