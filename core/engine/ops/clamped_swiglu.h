#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Where gate and up are limited, and how steep the gate is.
struct SwigluLimits {
  double limit = 7;      ///< the gate is at most this, up is within ± this
  double slope = 1.702;  ///< gate · sigmoid(slope · gate)
};

/// Biases of rows that stand in groups.
struct GroupBiases {
  at::Tensor bias;   ///< [groups, columns]; undefined: none
  at::Tensor group;  ///< [rows] int64: each row's; undefined without biases
};

/// gate · sigmoid(slope · gate) · (up + 1) of fused gate and up `x` [rows, 2 ff], the gate first, each limited after
/// the row's bias [2 ff] was added (transformers' GptOssExperts._apply_gate). The result is [rows, ff].
///
/// float64, float32, bfloat16 or half; computed in float32 (float64 for float64) and rounded once, but that x + bias is
/// rounded as a product's result would be. Backward keeps only x and the biases. A bias' gradient is the sum over its
/// rows, in float32, rounded once and in an order that depends only on the sizes. Uses the current stream.
at::Tensor clamped_swiglu(const at::Tensor& x, const GroupBiases& biases, const SwigluLimits& limits);

/// x [rows, columns] plus each row's bias; its gradient is as above.
at::Tensor add_group_biases(const at::Tensor& x, const GroupBiases& biases);

}  // namespace ops
CAPSTAN_END_NAMESPACE
