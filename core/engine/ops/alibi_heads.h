#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// q and k, each [.., dim], widened to dim + 3 columns rounded up to a multiple of 8, so that scale · q'k' = scale · qk
/// + bias[.., key]: q' = [q, 1, 1, 1, 0 …], k' = [k, high, middle, low, 0 …] with bias / scale as the sum of three
/// numbers of k's dtype (three of bfloat16 hold all of a float32). `bias` has k's shape but for the columns, and is
/// float32 or float64.
struct WidenedHeads {
  at::Tensor q;
  at::Tensor k;
};
WidenedHeads with_bias_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, double scale);

/// What attention with linear biases (Press et al. 2021) reads of a fused projection through a plain causal kernel.
struct AlibiHeads {
  at::Tensor q;  ///< [B, heads, S, dim + columns], new; in memory S is before the heads
  at::Tensor k;  ///< the same
  at::Tensor v;  ///< [B, heads, S, dim], in the memory of the projection
};

/// q, k and v of `fused` [B, S, heads · 3 · dim], contiguous, float64, float32, bfloat16 or half; q and k widened as
/// with_bias_columns does it, for the bias
/// slopes[head] · (positions - (S - 1)). `slopes` [heads] float32 (float64 for float64), `positions` [B, S] int64, both
/// on fused's device. The bias is computed in the slopes' dtype. One launch and one node of autograd; backward writes
/// the gradient of `fused` from the three in one launch, and none goes to the columns. Uses the current stream.
AlibiHeads alibi_heads(const at::Tensor& fused, const at::Tensor& slopes, const at::Tensor& positions, double scale);

/// How many columns q and k of `dim` columns then have.
std::int64_t alibi_columns(std::int64_t dim);

}  // namespace ops
CAPSTAN_END_NAMESPACE
