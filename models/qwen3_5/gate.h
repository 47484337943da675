#pragma once
#include <ATen/core/Tensor.h>

namespace qwen3_5 {

/// x · silu(z) of tensors of one shape and dtype, computed in float32 (float64 for float64) and rounded once. Backward
/// keeps x and z as they are.
at::Tensor gated_by(const at::Tensor& x, const at::Tensor& z);

}  // namespace qwen3_5
