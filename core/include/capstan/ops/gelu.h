#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// x Φ(x), Φ the normal distribution's, or its approximation by tanh (Hendrycks and Gimpel 2016): float64, float32,
/// bfloat16 or half, computed in float32 (float64 for float64) and rounded once. On CPU at::gelu, bit for bit.
/// A product that reads the result keeps nothing for backward, where it is computed again from x.
at::Tensor gelu(const at::Tensor& x, bool tanh);

}  // namespace ops
CAPSTAN_END_NAMESPACE
