#include "ops/move_rows.h"
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

namespace move_rows_test {

using namespace capstan;

TEST_CASE("rows go where they are told, the others are zero") {
  const auto x = at::arange(1, 9, at::TensorOptions(at::kDouble)).view({4, 2});
  const auto from = at::tensor(std::vector<std::int64_t>{3, 0}), to = at::tensor(std::vector<std::int64_t>{1, 4});
  const auto out = ops::move_rows(x, from, to, 5);
  CHECK(at::equal(out, at::tensor(std::vector<double>{0, 0, 7, 8, 0, 0, 0, 0, 1, 2}, at::kDouble).view({5, 2})));
  CHECK(ops::move_rows(x.to(at::kBFloat16), from, to, 5).scalar_type() == at::kBFloat16);
  CHECK(capstan::testing::jacobian_error(
            [&](const std::vector<at::Tensor>& in) { return ops::move_rows(in[0], from, to, 5); }, {x}) < 1e-9);
}

TEST_CASE("picked rows come in their order, and the gradient of the others is zero") {
  const auto x = at::arange(1, 9, at::TensorOptions(at::kDouble)).view({4, 2});
  const auto rows = at::tensor(std::vector<std::int64_t>{0, 3});
  CHECK(at::equal(ops::pick_rows(x, rows), at::tensor(std::vector<double>{1, 2, 7, 8}, at::kDouble).view({2, 2})));
  const auto picked = [&](const std::vector<at::Tensor>& in) { return ops::pick_rows(in[0], rows); };
  CHECK(capstan::testing::jacobian_error(picked, {x}) < 1e-9);
  const auto leaf = x.to(at::kBFloat16).set_requires_grad(true);
  const auto gradient = torch::autograd::grad({ops::pick_rows(leaf, rows).sum()}, {leaf})[0];
  CHECK(gradient.scalar_type() == at::kBFloat16);
  CHECK(at::equal(gradient.sum(1).to(at::kDouble), at::tensor(std::vector<double>{2, 0, 0, 2}, at::kDouble)));
}

TEST_CASE("rows of any shape move, none at all too") {
  const auto x = at::ones({3, 2, 2}, at::kDouble);
  const auto none = at::empty({0}, at::kLong);
  CHECK(at::equal(ops::move_rows(x, none, none, 2), at::zeros({2, 2, 2}, at::kDouble)));
}

}  // namespace move_rows_test
