// What ends a run without being an Error, in words.
#include "launch/error_report.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <capstan_catch.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

using namespace capstan;

namespace {

template <class F>
std::string words_of(F&& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    const auto known = launch::in_words(error);
    return known ? known->what() : "";
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a host without memory and a file system that refuses are no bugs") {
  CHECK_THAT(words_of([] { throw std::bad_alloc(); }), Contains("this host has no memory left") && Contains("--mem"));
  const auto too_much = [] { (void)at::empty({std::int64_t{1} << 50}, at::kFloat); };
  CHECK_THAT(
      words_of(too_much),
      Contains("this host has no memory left: you tried to allocate 4503599627370496 bytes") && !Contains("frame #"));
  CHECK_THAT(words_of([] {
               TORCH_CHECK_WITH(
                   OutOfMemoryError, false,
                   "CUDA out of memory. Tried to allocate 2.00 GiB. If reserved but unallocated memory is");
             }),
             Contains("this rank's GPU has no memory left: CUDA out of memory. Tried to allocate 2.00 GiB.") &&
                 Contains("capstan check --gpu") && !Contains("reserved"));
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
