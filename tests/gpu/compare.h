// What tests on a GPU compare with: the result and gradients of the same function on CPU.
#pragma once
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "nn/weights.h"

using Inputs = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Inputs&)>;

inline const at::ScalarType float_types[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

inline at::Tensor on_gpu(const at::Tensor& x) { return x.to(at::kCUDA); }

/// The largest difference as a part of the largest number expected.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const auto expected = b.cpu().to(at::kDouble);
  return ((a.cpu().to(at::kDouble) - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item<double>();
}

/// What all_of() weighs a result with.
inline at::Tensor weights_of(at::IntArrayRef shape) {
  return capstan::testing::numbers(shape.vec(), 0.3).to(at::kBFloat16);
}

/// The result and the gradients of a fixed weighting of it.
inline Inputs all_of(const Function& function, const Inputs& inputs) {
  Inputs leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  const auto weights = weights_of(out.sizes()).to(out.options());
  auto results = torch::autograd::grad({out}, leaves, {weights});
  results.insert(results.begin(), out.detach());
  return results;
}
