#pragma once
// BLOOM's attention, of a whole projection.
#include <ATen/core/Tensor.h>
#include <capstan/nn/attention.h>

#include <optional>

namespace bloom {

/// Causal attention with linear biases (Press et al. 2021) by cuDNN: `fused` [B, S, heads · 3 · dim], contiguous,
/// bfloat16 or half, q, k and v of each head after each other; slopes [heads], float32 -> [B, heads, S, dim],
/// softmax(q k / √dim + slope · (key - query)) v, whose memory has positions before heads. Backward writes the whole
/// projection's gradient, and none for the slopes. Scores and biases are added in float32. Waits for nothing, but
/// compiles for each shape that is new.
///
/// Nothing where no kernel takes it: on CPUs, for other dtypes, heads of more than 128 columns or of no whole 8, rows
/// of one position, GPUs before compute capability 9.0, and where at::globalContext().deterministicAlgorithms(), since
/// sums of backward have no order. Meta tensors are treated as on the newest GPUs.
std::optional<at::Tensor> fused_attention(const at::Tensor& fused, const at::Tensor& slopes);

/// The operator that the above calls where kernels take it, whatever the device: on CPUs the reference of float64.
at::Tensor attention_by_operator(const at::Tensor& fused, const at::Tensor& slopes);

/// What fills nn::Alibi::fused: the above, and where that gives nothing on a GPU, or samples are packed, LibTorch's
/// causal kernels with heads that carry the biases as columns (heads.h). Nothing on CPUs, and for packed samples that
/// ops::segment_attention does not take.
std::optional<at::Tensor> attention(const capstan::nn::Alibi& alibi, const at::Tensor& fused,
                                    const capstan::nn::Batch& batch);

}  // namespace bloom
