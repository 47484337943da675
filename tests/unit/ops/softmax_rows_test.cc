// What a GPU computes is in tests/gpu; here, shapes and where results are.
#include "ops/softmax_rows.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <stdexcept>

namespace softmax_rows_test {

using namespace capstan::ops;

TEST_CASE("gradients of logits are written over them, each row at the begin of its own") {
  const auto options = at::TensorOptions(at::kFloat).device(at::kMeta);
  const auto logits = at::empty({4, 10}, options), column = at::empty({4, 1}, options.dtype(at::kLong));
  const auto [maximum, sum, chosen] = softmax_statistics(logits, column);
  CHECK(maximum.sizes() == column.sizes());
  CHECK(chosen.sizes() == column.sizes());
  const auto two_passes = softmax_gradient_(logits, maximum, sum, column, 1, at::kBFloat16);
  const auto one_pass = softmax_loss_(logits, column.select(1, 0), 1, at::kBFloat16, at::empty({4}, options));
  for (const auto& gradient : {two_passes, one_pass}) {
    CHECK(gradient.scalar_type() == at::kBFloat16);
    CHECK(gradient.sizes() == logits.sizes());
    CHECK(gradient.strides() == at::IntArrayRef({20, 1}));
    CHECK(gradient.is_alias_of(logits));
  }
}

TEST_CASE("logits with gaps between their rows, and columns of other rows, are a bug") {
  const auto options = at::TensorOptions(at::kFloat).device(at::kMeta);
  const auto logits = at::empty({4, 10}, options), column = at::empty({4, 1}, options.dtype(at::kLong));
  CHECK_THROWS_AS(softmax_statistics(logits.narrow(1, 0, 8), column), std::logic_error);
  CHECK_THROWS_AS(softmax_statistics(logits, column.narrow(0, 0, 3)), std::logic_error);
}

}  // namespace softmax_rows_test
