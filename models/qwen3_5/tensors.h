#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace qwen3_5 {

/// The dtype of sums, products of states and exponentials.
inline at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// What may be missing, as functions of autograd take it.
using Maybe = std::optional<at::Tensor>;
inline Maybe maybe(const at::Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }

}  // namespace qwen3_5
