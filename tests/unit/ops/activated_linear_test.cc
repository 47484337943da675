#include "ops/activated_linear.h"

#include <ATen/ATen.h>
#include <capstan/ops/gelu.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

namespace activated_linear_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

using Inputs = std::vector<at::Tensor>;

at::Tensor numbers(at::IntArrayRef shape, double begin, const at::TensorOptions& options) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).add_(begin).sin_().to(options).reshape(shape);
}

/// What one node makes of x [3, 4, features] and what two after each other make of it.
struct Together {
  Activating kind;
  std::int64_t features;
  std::function<at::Tensor(const at::Tensor& x)> alone;
};

const Together activations[] = {
    {Activating::gelu, 16, [](const auto& x) { return gelu(x, false); }},
    {Activating::gelu_tanh, 16, [](const auto& x) { return gelu(x, true); }},
    {Activating::swiglu, 32, [](const auto& x) { return swiglu(x); }},
    {Activating::geglu_tanh, 32, [](const auto& x) { return activated(x, Activating::geglu_tanh); }}};

}  // namespace

TEST_CASE("an activation and its product as one node are the two, bit for bit, whatever is trained") {
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  const bool x_trained = GENERATE(true, false), weight_trained = GENERATE(true, false);
  for (const auto& one : activations) {
    const auto results = [&](const std::function<at::Tensor(const Inputs&)>& function) {
      const Inputs in{numbers({3, 4, one.features}, 0.1, type).set_requires_grad(x_trained),
                      numbers({5, 16}, 0.7, type).set_requires_grad(weight_trained),
                      numbers({5}, 2, type).set_requires_grad(true)};
      const auto out = function(in);
      auto all = torch::autograd::grad({out}, {in[2]}, {numbers(out.sizes(), 0.3, out.options())}, true);
      for (const auto& leaf : {in[0], in[1]}) {
        if (leaf.requires_grad())
          all.push_back(torch::autograd::grad({out}, {leaf}, {numbers(out.sizes(), 0.3, out.options())}, true)[0]);
      }
      if (x_trained && weight_trained) {
        for (const auto& both :
             torch::autograd::grad({out}, {in[0], in[1]}, {numbers(out.sizes(), 0.9, out.options())}))
          all.push_back(both);
      }
      all.push_back(out.detach());
      return all;
    };
    const auto got = results([&](const Inputs& in) { return activated_linear(in[0], one.kind, in[1], in[2]); });
    const auto expected =
        results([&](const Inputs& in) { return capstan::ops::linear(one.alone(in[0]), in[1], in[2]); });
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(got[i], expected[i]));
  }
}

TEST_CASE("the numeric Jacobian of an activation and its product as one node") {
  for (const auto& one : activations) {
    const auto function = [&](const Inputs& in) { return activated_linear(in[0], one.kind, in[1], in[2]); };
    CHECK(jacobian_error(function, {numbers({3, 4, one.features}, 0.1, at::kDouble), numbers({5, 16}, 0.7, at::kDouble),
                                    numbers({5}, 2, at::kDouble)}) < 1e-7);
  }
}

}  // namespace activated_linear_test
