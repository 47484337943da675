#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// What a low-rank adapter adds to the features [begin, begin + n) of a product.
struct LowRank {
  at::Tensor inner;  ///< [rows, rank]: the input times the first matrix
  at::Tensor up;     ///< [n, rank]: the second matrix
  double scale = 1;
  std::int64_t begin = 0;
};

/// y[.., begin : begin + n] += scale · inner up^T in y's own memory, by the product that multiplies; returns y. `y`
/// [.., features] is contiguous, has `rows` rows in all, and nothing keeps its old values. Differentiable once in y,
/// inner and up, and bit-equal to at::addmm_ on that part of y; autograd's own backward of that copies the gradient of
/// all of y three times, this one passes it on.
at::Tensor add_low_rank_(const at::Tensor& y, const LowRank& added);

}  // namespace ops
CAPSTAN_END_NAMESPACE
