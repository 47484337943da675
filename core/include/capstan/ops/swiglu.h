#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// silu(gate) * up for fused gate and up, silu(a) = a / (1 + exp(-a)): `x` is [..., 2 ff], its first half the
/// gate (Shazeer, "GLU variants improve transformer", 2020). The result is [..., ff].
///
/// float64, float32, bfloat16 or half; computed in float32 (float64 for float64) and rounded once. Backward keeps
/// only x and makes the gradient of both halves in one pass. Uses the current stream.
at::Tensor swiglu(const at::Tensor& x);

}  // namespace ops
CAPSTAN_END_NAMESPACE
