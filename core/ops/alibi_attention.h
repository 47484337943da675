#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// slopes[head] · (key - query) for each key up to the query, 0 after it: [1, heads, length, length] of `type`.
/// `slopes` [heads] float32. What attention with linear biases adds to its scores, but for a number of each query,
/// which softmax does not see.
at::Tensor alibi_bias(const at::Tensor& slopes, std::int64_t length, at::ScalarType type);

/// Does cuDNN attend with a bias to a projection [B, S, heads · 3 · dim] faster than with widened heads (alibi_heads)?
/// On GPUs of sm_90, 16-bit numbers, heads of whole 8 up to 128 and rows of whole 8 positions up to 1024, whose biases
/// are few beside what else a block computes; not where algorithms are to be deterministic. On the meta device as
/// there.
bool takes_alibi_bias(const at::Tensor& fused, std::int64_t heads);

/// Causal attention with linear biases (Press et al. 2021) of `fused` [B, S, heads · 3 · dim], contiguous, where it is
/// taken: [B, heads, S, dim], in memory S before the heads. Each row's positions follow one another. `slopes` [heads]
/// float32. The bias is rounded to the dtype of fused: to 2^-9 of itself, so least for the nearest keys, which have
/// most of the weight. One node of autograd; keeps fused, the result and a number for each query.
at::Tensor alibi_attention(const at::Tensor& fused, const at::Tensor& slopes, double scale);

}  // namespace ops
CAPSTAN_END_NAMESPACE
