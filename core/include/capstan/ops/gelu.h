#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// at::gelu(x), with its tanh approximation if asked for (Hendrycks and Gimpel 2016), and its gradient, bit for bit.
/// A product that reads the result keeps nothing for backward, where it is computed again from x.
at::Tensor gelu(const at::Tensor& x, bool tanh);

}  // namespace ops
CAPSTAN_END_NAMESPACE
