// What products do not keep for backward because it can be computed again: the same bits, in less memory.
#include "ops/again.h"

#include <ATen/ATen.h>
#include <capstan/ops/gelu.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/activation.h"
#include "ops/add_norm.h"
#include "ops/jacobian.h"
#include "predict/memory_counter.h"

namespace again_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

using Inputs = std::vector<at::Tensor>;
using Made = std::function<at::Tensor(const at::Tensor& x)>;

/// What feeds a product: it takes x [3, 4, 16] and gives as many features.
struct Producer {
  std::string name;
  std::int64_t features;
  Made make;
};

std::vector<Producer> producers(const at::TensorOptions& options) {
  const auto from_to = [&](double begin, double end, std::int64_t count) {
    return at::linspace(begin, end, count, at::kDouble).to(options);
  };
  const auto weight = from_to(0.5, 2, 16), bias = from_to(-1, 1, 16);
  const auto other = from_to(-2, 3, 192).view({3, 4, 16});
  return {
      {"RMS norm", 16,
       [=](const auto& x) {
         return add_norm(x, {}, {weight, {}, 1e-5}).normed;
       }},
      {"RMS norm with 1 + weight", 16,
       [=](const auto& x) {
         return add_norm(x, {}, {weight, {}, 1e-5, /*adds_one=*/true}).normed;
       }},
      {"RMS norm of a sum", 16,
       [=](const auto& x) {
         return add_norm(x, other, {weight, {}, 1e-5}).normed;
       }},
      {"layer norm of a sum", 16,
       [=](const auto& x) {
         return add_norm(x, other, {weight, bias, 1e-5}).normed;
       }},
      {"swiglu", 8, [](const auto& x) { return swiglu(x); }},
      {"gelu", 16, [](const auto& x) { return gelu(x, false); }},
      {"gelu by tanh", 16, [](const auto& x) { return gelu(x, true); }},
      {"gated gelu", 8, [](const auto& x) { return activated(x, Activating::geglu_tanh); }},
  };
}

at::Tensor numbers(at::IntArrayRef shape, double begin, const at::TensorOptions& options) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).add_(begin).sin_().to(options).reshape(shape);
}

Inputs gradients(const std::function<at::Tensor(const Inputs&)>& function, const Inputs& inputs) {
  Inputs leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  return torch::autograd::grad({out}, leaves, {numbers(out.sizes(), 0.3, out.options())});
}

/// Bytes that a product leaves for backward besides its result and what it was made from.
std::int64_t kept_bytes(const Producer& one, bool again, const at::TensorOptions& options) {
  const auto x = at::empty({3, 4, 16}, options).set_requires_grad(true);
  const auto weight = at::empty({5, one.features}, options).set_requires_grad(true);
  const capstan::predict::MemoryCounter memory;
  const auto result = [&] {
    auto made = one.make(x);
    return capstan::ops::linear(again ? made : made.view_as(made), weight, {});
  }();
  return memory.count().now;
}

}  // namespace

TEST_CASE("a product of what is computed again has the gradients of one that keeps it, bit for bit") {
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  for (const auto& one : producers(at::TensorOptions(type))) {
    INFO(one.name << " in " << type);
    const Inputs inputs{numbers({3, 4, 16}, 0.1, type), numbers({5, one.features}, 0.7, type), numbers({5}, 2, type)};
    const auto product = [&](bool again) {
      return gradients(
          [&](const Inputs& in) {
            const auto made = one.make(in[0]);
            const auto first = capstan::ops::linear(again ? made : made.clone(), in[1], in[2]);
            return first + capstan::ops::linear(again ? made : made.clone(), in[1], {});  // two may read it
          },
          inputs);
    };
    const auto got = product(true), expected = product(false);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(got[i], expected[i]));
  }
}

TEST_CASE("its numeric Jacobian") {
  for (const auto& one : producers(at::kDouble)) {
    INFO(one.name);
    const auto function = [&](const Inputs& in) { return capstan::ops::linear(one.make(in[0]), in[1], {}); };
    CHECK(jacobian_error(function,
                         {numbers({3, 4, 16}, 0.1, at::kDouble), numbers({5, one.features}, 0.7, at::kDouble)}) < 1e-7);
  }
}

TEST_CASE("nothing is kept of it") {
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kFloat);
  for (const auto& one : producers(options)) {
    INFO(one.name);
    const auto rounded = (48 * one.features + 511) / 512 * 512;
    CHECK(kept_bytes(one, false, options) - kept_bytes(one, true, options) == rounded);
  }
}

TEST_CASE("what is changed on the way to a product, or is another result, is kept") {
  const auto x = numbers({4, 16}, 0.1, at::kDouble).set_requires_grad(true);
  const auto weight = numbers({5, 16}, 0.7, at::kDouble).set_requires_grad(true);
  const auto norm = at::linspace(0.5, 2, 16, at::kDouble);
  const auto of_weight = [&](const at::Tensor& input) {
    return torch::autograd::grad({capstan::ops::linear(input, weight, {}).sum()}, {weight})[0];
  };
  const auto made = gelu(x, false);
  CHECK(at::equal(of_weight(gelu(x, false).mul_(3)), of_weight(made.mul(3))));
  const auto sum = add_norm(x, x, {norm, {}, 1e-5}).sum;
  CHECK(at::equal(of_weight(sum), of_weight((x + x).clone())));
}

}  // namespace again_test
