#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// x · factor, multiplied in factor's dtype and rounded once to `type`: `x` of any shape, `factor` of one element,
/// float32 or float64, on x's device. On CUDA a float32 x becomes 16 bits in one pass of 6 bytes an element at the
/// memory's rate; ATen's own, whose two dtypes differ, reaches less than half of that. Not differentiable.
at::Tensor scaled(const at::Tensor& x, const at::Tensor& factor, at::ScalarType type);

}  // namespace ops
CAPSTAN_END_NAMESPACE
