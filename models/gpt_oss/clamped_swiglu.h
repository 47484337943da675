#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/ops/grouped.h>

namespace gpt_oss {

/// Where gate and up are limited, and how steep the gate is.
struct SwigluLimits {
  double limit = 7;      ///< the gate is at most this, up is within ± this
  double slope = 1.702;  ///< gate · sigmoid(slope · gate)
};

/// gate · sigmoid(slope · gate) · (up + 1) of fused gate and up `x` [rows, 2 ff], the gate first, each limited after
/// the row's bias [2 ff] was added (transformers' GptOssExperts._apply_gate). The result is [rows, ff].
///
/// float64, float32, bfloat16 or half; computed in float32 (float64 for float64) and rounded once, but that x + bias is
/// rounded as a product's result would be. Backward keeps only x and the biases. A bias' gradient is
/// capstan::ops::group_sums of x's. Uses the current stream.
at::Tensor clamped_swiglu(const at::Tensor& x, const capstan::ops::GroupBiases& biases, const SwigluLimits& limits);

}  // namespace gpt_oss
