#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

// Sums over rows, such as the gradients of biases and of norms' weights: added in float32 (float64 for float64) and
// rounded once, in an order that depends only on the shape. float64, float32, bfloat16 or half, contiguous. On CUDA
// two launches: parts by blocks of rows and columns, then the parts, so that the memory's rate is reached also where
// there are few columns. Not differentiable; on the current stream.

/// x [rows, columns] -> [columns].
at::Tensor column_sums(const at::Tensor& x);

/// The gradients of a norm's weight and, where it has a mean, its bias, both [columns] in x's dtype: the sums of
/// gradient · (x - mean) · rstd and of gradient. `gradient` and `x` [.., columns]; mean and rstd a number a row.
struct NormWeightGradients {
  at::Tensor weight;
  at::Tensor bias;  ///< undefined without a mean
};
NormWeightGradients norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                          const std::optional<at::Tensor>& mean, const at::Tensor& rstd);

}  // namespace ops
CAPSTAN_END_NAMESPACE
