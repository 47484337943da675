#pragma once
// A call's result and gradients, against those of the plain calls that it replaces.
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "ops/jacobian.h"

namespace capstan::testing {

using Inputs = std::vector<at::Tensor>;

/// Numbers of order 1: values of a sine.
inline at::Tensor waves(const std::vector<std::int64_t>& shape, double phase) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).add(phase).sin().mul(2).view(shape);
}

/// The result and all gradients of a weighting of it.
inline Inputs all_of(const DifferentiableFunction& function, const Inputs& inputs) {
  Inputs leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  auto results = torch::autograd::grad({out}, leaves, {waves(out.sizes().vec(), 0.3).to(out.scalar_type())});
  results.insert(results.begin(), out.detach());
  return results;
}

inline void check_equal(const Inputs& got, const Inputs& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::equal(got[i], wanted[i]));
}

}  // namespace capstan::testing
