#pragma once
#include <ATen/core/Tensor.h>

namespace qwen3_5 {

/// A convolution of each channel with its own weights, and SiLU of it: out[s] = silu(sum of w[kernel - 1 - j] x[s - j]
/// over j = 0 to kernel - 1), x [B, S, channels], w [channels, 1, kernel]. `positions` [B, S] int64: a token sees no
/// more tokens before it than its position says, where rows hold several sequences; undefined: all of its row. Computed
/// in float32 (float64 for float64), rounded once. Backward keeps x and w only.
at::Tensor causal_convolution(const at::Tensor& x, const at::Tensor& w, const at::Tensor& positions = {});

/// The same of the last token of a window [B, kernel, channels]: [B, 1, channels].
at::Tensor convolved_last(const at::Tensor& window, const at::Tensor& w);

}  // namespace qwen3_5
