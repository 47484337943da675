#pragma once
// BLOOM's heads as plain causal kernels take them.
#include <ATen/core/Tensor.h>

namespace bloom {

/// What attention with linear biases (Press et al. 2021) reads of a fused projection through a plain causal kernel.
struct WidenedHeads {
  at::Tensor q;  ///< [B, heads, S, dim + columns], new; in memory S is before the heads
  at::Tensor k;  ///< the same
  at::Tensor v;  ///< [B, heads, S, dim], in the memory of the projection
};

/// q, k and v of `fused` [B, S, heads · 3 · dim], contiguous, float64, float32, bfloat16 or half; q and k widened as
/// ops::with_bias_columns does it, for the bias slopes[head] · (positions - (S - 1)). `slopes` [heads] float32 (float64
/// for float64), `positions` [B, S] int64, both on fused's device. The bias is computed in the slopes' dtype. One
/// launch and one node of autograd; backward writes the gradient of `fused` from the three in one launch, and none goes
/// to the columns. Uses the current stream.
WidenedHeads widened_heads(const at::Tensor& fused, const at::Tensor& slopes, const at::Tensor& positions,
                           double scale);

}  // namespace bloom
