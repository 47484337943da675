#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// What attention with linear biases (Press et al. 2021) reads of a fused projection through a plain causal kernel.
struct AlibiHeads {
  at::Tensor q;  ///< [B, heads, S, dim + columns], new; in memory S is before the heads
  at::Tensor k;  ///< the same
  at::Tensor v;  ///< [B, heads, S, dim], in the memory of the projection
};

/// q, k and v of `fused` [B, S, heads · 3 · dim], contiguous, float64, float32, bfloat16 or half; q and k widened as
/// nn::with_bias_columns does it, by 3 columns rounded up to whole 8 of all, for the bias
/// slopes[head] · (positions - (S - 1)). `slopes` [heads] float32 (float64 for float64), `positions` [B, S] int64, both
/// on fused's device. The bias is computed in the slopes' dtype. One launch and one node of autograd; backward writes
/// the gradient of `fused` from the three in one launch, and none goes to the columns. Uses the current stream.
AlibiHeads alibi_heads(const at::Tensor& fused, const at::Tensor& slopes, const at::Tensor& positions, double scale);

/// How many columns q and k of so many then have.
std::int64_t alibi_columns(std::int64_t dim);

}  // namespace ops
CAPSTAN_END_NAMESPACE
