#pragma once
#include <capstan/base/export.h>
#include <capstan/ops/quantise.h>

#include <optional>
#include <tuple>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// What the operators compute, by plain calls of ATen, on any device. See Rounding.
at::Tensor plain_magnitudes(const at::Tensor& x, bool by_row, bool transposed);
std::tuple<at::Tensor, at::Tensor> plain_quantise(const at::Tensor& x, const at::Tensor& magnitudes,
                                                  at::ScalarType format, bool transposed,
                                                  const std::optional<at::Tensor>& counts);
std::tuple<at::Tensor, at::Tensor> plain_quantise_swiglu(const at::Tensor& x, at::ScalarType format, bool by_row,
                                                         const std::optional<at::Tensor>& counts);
std::tuple<at::Tensor, at::Tensor> plain_quantise_swiglu_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                                  at::ScalarType format, bool by_row,
                                                                  const std::optional<at::Tensor>& counts);

}  // namespace ops
CAPSTAN_END_NAMESPACE
