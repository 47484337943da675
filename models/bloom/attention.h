#pragma once
// BLOOM's attention, of a whole projection.
#include <ATen/core/Tensor.h>
#include <capstan/nn/attention.h>

#include <optional>
#include <vector>

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

/// The rows that BLOOM adds to attention's table, for calls with the whole product and linear biases alone. First the
/// above; then, where that takes nothing on a GPU or samples are packed, LibTorch's causal kernels with heads that
/// carry the biases as columns (heads.h), for packed samples if ops::segment_attention takes them. Neither is for CPUs.
std::vector<capstan::nn::AttentionRow> rows();

}  // namespace bloom
