#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// A norm over the last dimension, which has n numbers.
struct NormOf {
  at::Tensor weight;  ///< [n]
  at::Tensor bias;    ///< [n]: layer normalisation (Ba et al. 2016); undefined: RMS norm (Zhang and Sennrich 2019)
  double epsilon = 0;
  bool adds_one = false;  ///< 1 + weight stands for the weight, added in float32 (float64 for float64)
};

/// A sum and its norm, both of the sum's shape and dtype.
struct Normed {
  at::Tensor sum;
  at::Tensor normed;
};

/// {x + y, norm(x + y)}, or without y {x, norm(x)}: a residual stream and what a layer reads of it. x and y [..., n] of
/// one dtype, float64, float32, bfloat16 or half, which the weights have too. The sum is rounded as at::add rounds it;
/// the norm and its statistics are computed from the rounded sum in float32 (float64 for float64) and rounded once.
///
/// Backward adds the gradient that comes through the sum to the norm's own in the same pass, in float32, and rounds
/// once; it keeps the sum and two numbers a row (RMS: one). On CUDA one launch each way for rows of whole 16 bytes and
/// at most 64 KiB, the gradients of the weights apart; other rows take ATen's. Uses the current stream.
Normed add_norm(const at::Tensor& x, const at::Tensor& y, const NormOf& norm);

/// What the operators compute, by plain calls of ATen, on any device.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> plain_add_norm(const at::Tensor& x,
                                                                          const std::optional<at::Tensor>& y,
                                                                          const at::Tensor& weight,
                                                                          const std::optional<at::Tensor>& bias,
                                                                          double epsilon, bool adds_one);
at::Tensor plain_add_norm_backward(const std::optional<at::Tensor>& residual, const at::Tensor& normed,
                                   const at::Tensor& sum, const std::optional<at::Tensor>& mean, const at::Tensor& rstd,
                                   const at::Tensor& weight, bool adds_one);

}  // namespace ops
CAPSTAN_END_NAMESPACE
