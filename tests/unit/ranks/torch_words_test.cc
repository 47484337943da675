// What LibTorch throws, in words.
#include "ranks/torch_words.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <capstan_catch.h>

#include <new>

#include "support/errors.h"

namespace torch_words_test {

using namespace capstan;

namespace {

template <class F>
std::string words_of(F&& fn) {
  return test::words_of(ranks::in_words, fn);
}

void allocate_too_much() { (void)at::empty({std::int64_t{1} << 50}, at::kFloat); }

}  // namespace

TEST_CASE("a host and a GPU without memory are no bugs") {
  CHECK_THAT(
      words_of(allocate_too_much),
      Contains("this host has no memory left: you tried to allocate 4503599627370496 bytes") && !Contains("frame #"));
  CHECK_THAT(words_of([] {
               TORCH_CHECK_WITH(
                   OutOfMemoryError, false,
                   "CUDA out of memory. Tried to allocate 2.00 GiB. If reserved but unallocated memory is");
             }),
             Contains("this rank's GPU has no memory left: CUDA out of memory. Tried to allocate 2.00 GiB.") &&
                 Contains("capstan check --gpu") && !Contains("reserved"));
  CHECK_THAT(words_of([] { throw std::bad_alloc(); }), Contains("this host has no memory left"));
}

}  // namespace torch_words_test
