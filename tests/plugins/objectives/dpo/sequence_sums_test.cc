#include "plugins/objectives/dpo/sequence_sums.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

namespace {

const std::vector<std::int64_t> of_rows{0, 0, 0, 2, 2, 1, 3, 3, -1, 4};  // 4 sequences; the last two rows are in none

at::Tensor sequence() { return at::tensor(of_rows, at::kLong); }
at::Tensor values() { return at::arange(1, 11, at::kDouble).mul(0.37).sin(); }

}  // namespace

TEST_CASE("each sequence gets the sum of its rows, and rows of no sequence count nowhere") {
  auto expected = std::vector<double>(4, 0.0);
  const auto x = values();
  for (std::size_t i = 0; i < 8; ++i)
    expected[static_cast<std::size_t>(of_rows[i])] += x[static_cast<std::int64_t>(i)].item<double>();
  const auto sums = dpo::sums_by_sequence(x, sequence(), 4);
  for (std::int64_t i = 0; i < 4; ++i)
    CHECK(sums[i].item<double>() == Approx(expected[static_cast<std::size_t>(i)]).epsilon(1e-15));
}

TEST_CASE("sums by sequence are of float64, whatever the values are") {
  // In float32 the second number would be lost.
  const auto x = at::tensor({1e8F, 1.0F, -1e8F}, at::kFloat);
  const auto sums = dpo::sums_by_sequence(x, at::zeros({3}, at::kLong), 1);
  CHECK(sums.scalar_type() == at::kDouble);
  CHECK(sums.item<double>() == 1);
}

TEST_CASE("the backward of sums by sequence is the Jacobian, in the values' dtype") {
  const auto sums = [](const std::vector<at::Tensor>& in) { return dpo::sums_by_sequence(in[0], sequence(), 4); };
  CHECK(capstan::testing::jacobian_error(sums, {values()}) < 1e-9);
  const auto x = values().to(at::kFloat).set_requires_grad(true);
  const auto gradient = torch::autograd::grad({dpo::sums_by_sequence(x, sequence(), 4).sum()}, {x})[0];
  CHECK(gradient.scalar_type() == at::kFloat);
  CHECK(at::equal(gradient, sequence().ge(0).logical_and(sequence().lt(4)).to(at::kFloat)));
}
