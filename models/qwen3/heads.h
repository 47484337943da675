#pragma once
// Queries and keys as Qwen 3's attention takes them: RMS norms by head and rotary positions in one pass, and one
// backward. On a GPU, where the norms are frozen: there both passes are bound by memory.
#include <ATen/core/Tensor.h>
#include <capstan/nn/attention.h>
#include <capstan/ops/rotary.h>

#include <cstdint>
#include <vector>

namespace qwen3 {

struct Norms {
  at::Tensor query;  ///< [dim], in the heads' dtype, as the key's
  at::Tensor key;
  double epsilon;
};

/// The heads of `fused` [B, S, queries + keys + the rest, dim], whose last stride is 1, the others any: q, then k, both
/// x / sqrt(mean(x²) + epsilon) · weight, then turned as by ops::rotary, in new memory; then v, in fused's. Backward
/// reads fused again, and writes its gradient in one pass from those of the three, whatever their strides. The norms
/// get no gradients.
///
/// Numbers: all are float32 between one rounding to q and k and another to the gradient, float64 for float64; norms
/// and rotary one after the other round to the dtype between them, too.
capstan::ops::RotaryHeads normed_heads(const at::Tensor& fused, const capstan::nn::Attention::Heads& own,
                                       const Norms& norms, const at::Tensor& positions,
                                       const std::vector<double>& frequencies);

/// The row with it for attention's table of what prepares heads. `epsilon`: the norms'.
capstan::nn::HeadsRow at_once_row(double epsilon);

}  // namespace qwen3
