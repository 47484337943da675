#include "comm/ordered_sum.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace ordered_sum_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)

TEST_CASE("ordered sum: 16-bit floats are summed in float32 and rounded once") {
  const at::Tensor big = at::full({1}, 256.0, at::kBFloat16);
  const at::Tensor one = at::full({1}, 1.0, at::kBFloat16);  // 256 + 1 is 256 in bf16, however often
  const at::Tensor out = at::empty({1}, at::kBFloat16);
  reduce_in_rank_order(out, {big, one, one}, ReduceOp::sum);
  CHECK(out.item<float>() == 258.0F);
}

TEST_CASE("ordered sum: out may be the first part") {
  const at::Tensor first = at::full({2}, 1.0);
  reduce_in_rank_order(first, {first, at::full({2}, 2.0)}, ReduceOp::sum);
  CHECK(first.equal(at::full({2}, 3.0)));
}

}  // namespace

}  // namespace ordered_sum_test
