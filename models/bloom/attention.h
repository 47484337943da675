#pragma once
// BLOOM's attention on GPUs that have cuDNN's kernels for it: they compute the linear biases themselves.
#include <ATen/core/Tensor.h>

#include <optional>

namespace bloom {

/// Causal attention with linear biases (Press et al. 2021): `fused` [B, S, heads · 3 · dim], contiguous, bfloat16 or
/// half, q, k and v of each head after each other; slopes [heads], float32 -> [B, heads, S, dim], softmax(q k / √dim +
/// slope · (key - query)) v, whose memory has positions before heads. Backward writes the whole projection's gradient,
/// and none for the slopes. Scores and biases are added in float32. Waits for nothing, but compiles for each shape that
/// is new, which takes some tenths of a second.
///
/// Nothing where no kernel takes it: on CPUs, for other dtypes, heads of more than 128 columns or of no whole 8, rows
/// of one position, GPUs before compute capability 9.0, and where at::globalContext().deterministicAlgorithms(), since
/// sums of backward have no order. Meta tensors are treated as on the newest GPUs.
std::optional<at::Tensor> fused_attention(const at::Tensor& fused, const at::Tensor& slopes);

}  // namespace bloom
