#include "ops/shared_input.h"

#include <ATen/ATen.h>
#include <capstan/ops/linear.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/add_norm.h"
#include "ops/jacobian.h"

namespace shared_input_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

using Inputs = std::vector<at::Tensor>;

at::Tensor numbers(at::IntArrayRef shape, double begin, const at::TensorOptions& options) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).add_(begin).sin_().to(options).reshape(shape);
}

Inputs gradients(const std::function<at::Tensor(const Inputs&)>& function, const Inputs& inputs) {
  Inputs leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  return torch::autograd::grad({out}, leaves, {numbers(out.sizes(), 0.3, out.options())});
}

}  // namespace

TEST_CASE("what a product and adapters share has the sum of their gradients, and keeps nothing of a norm") {
  const auto norm = at::linspace(0.5, 2, 16, at::kDouble);
  const bool shares = GENERATE(true), read_elsewhere = GENERATE(false, true);
  const auto function = [&](const Inputs& in, bool shared) {
    const auto x = add_norm(in[0], {}, {norm, {}, 1e-5}).normed;
    const auto both = shared ? share_input(x) : SharedInput{x, x};
    auto y = capstan::ops::linear(both.base, in[1], {});
    for (const std::size_t down : {2, 4}) {
      y = y + capstan::ops::linear(capstan::ops::linear(both.adapter, in[down], {}), in[down + 1], {});
    }
    return read_elsewhere ? y + both.adapter.sum(-1, true) : y;
  };
  const Inputs in{numbers({3, 4, 16}, 0.1, at::kDouble), numbers({6, 16}, 0.7, at::kDouble),
                  numbers({2, 16}, 0.2, at::kDouble),    numbers({6, 2}, 0.4, at::kDouble),
                  numbers({3, 16}, 0.6, at::kDouble),    numbers({6, 3}, 0.8, at::kDouble)};
  const auto got = gradients([&](const Inputs& all) { return function(all, shares); }, in);
  const auto expected = gradients([&](const Inputs& all) { return function(all, false); }, in);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::allclose(got[i], expected[i], 1e-13, 1e-13));
  CHECK(jacobian_error([&](const Inputs& all) { return function(all, shares); }, in) < 1e-7);
}

TEST_CASE("an adapter by itself has its gradient of a shared input too, and an input without one has none") {
  const auto weight = numbers({2, 16}, 0.2, at::kDouble).set_requires_grad(true);
  const auto x = numbers({3, 16}, 0.1, at::kDouble).set_requires_grad(true);
  const auto of = [&](const at::Tensor& in) {
    return torch::autograd::grad({capstan::ops::linear(in, weight, {}).sum()}, {x, weight}, {}, {}, false, true);
  };
  const auto got = of(share_input(x).adapter), expected = of(x);
  CHECK(at::allclose(got[0], expected[0], 1e-13, 1e-13));
  CHECK(at::equal(got[1], expected[1]));
  const auto frozen = of(share_input(x.detach()).adapter);
  CHECK(!frozen[0].defined());
  CHECK(at::equal(frozen[1], expected[1]));
}

}  // namespace shared_input_test
