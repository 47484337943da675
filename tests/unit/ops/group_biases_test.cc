#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

namespace group_biases_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).sin().mul(4).view(shape);
}

// Rows of three groups, the second of which has none.
at::Tensor group() { return at::tensor({0, 0, 2, 2, 2}, at::kLong); }

}  // namespace

TEST_CASE("each row gets its group's bias, and the backward is the Jacobian") {
  const at::Tensor x = numbers({5, 10}), bias = numbers({3, 10}) * 0.3;
  CHECK(at::equal(add_group_biases(x, {bias, group()}), x + bias.index_select(0, group())));
  CHECK(add_group_biases(x, {}).is_same(x));
  const auto added = [](const std::vector<at::Tensor>& in) { return add_group_biases(in[0], {in[1], group()}); };
  CHECK(jacobian_error(added, {x, bias}) < 1e-8);
}

TEST_CASE("a 16-bit bias' gradient is added in float32 and rounded once") {
  const at::Tensor x = numbers({5, 10}).to(at::kBFloat16);
  const at::Tensor bias = (numbers({3, 10}) * 0.3).to(at::kBFloat16).set_requires_grad(true);
  const at::Tensor gradient = numbers({5, 10}).to(at::kBFloat16);
  const auto got = torch::autograd::grad({add_group_biases(x, {bias, group()})}, {bias}, {gradient})[0];
  const at::Tensor wanted = at::zeros({3, 10}).index_add_(0, group(), gradient.to(at::kFloat));
  CHECK(at::equal(got, wanted.to(at::kBFloat16)));
  CHECK(got[1].eq(0).all().item<bool>());
}

}  // namespace group_biases_test
