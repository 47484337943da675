#include <ATen/ATen.h>
#include <capstan/ops/move_rows.h>
#include <capstan_catch.h>

#include "ops/jacobian.h"

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

TEST_CASE("rows of any shape move, none at all too") {
  const auto x = at::ones({3, 2, 2}, at::kDouble);
  const auto none = at::empty({0}, at::kLong);
  CHECK(at::equal(ops::move_rows(x, none, none, 2), at::zeros({2, 2, 2}, at::kDouble)));
}
