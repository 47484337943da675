#pragma once
#include <ATen/core/Tensor.h>

namespace fp8 {

/// Rows [..., k] in 8 bits: values · scales is what they stand for.
struct Scaled {
  at::Tensor values;  ///< [..., k] e4m3 or e5m2 (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"), contiguous
  at::Tensor scales;  ///< float32 powers of two: [..., 1], or [1, 1] for all rows
};

/// The largest magnitude of each row of x [..., k], [..., 1] float32; or of all of them, [1, 1]. NaN where x has one.
at::Tensor magnitudes(const at::Tensor& x, bool by_row);

/// The smallest powers of two by which such magnitudes can be divided and stay in the format's range. NaN for what is
/// not finite, so that a run stops where its numbers do and not later. Being powers of two they cost no digits, and
/// ranks that hold pieces of a sum scale each piece exactly as they would scale the sum.
at::Tensor scales_for(const at::Tensor& magnitudes, at::ScalarType format);

/// x [..., k], of any strides, divided by its scales and rounded to nearest, ties to even.
Scaled quantise(const at::Tensor& x, const at::Tensor& scales, at::ScalarType format);

/// a b^T of a [m, k] and b [n, k], in `dtype` [m, n]. On CUDA one scaled product, which takes k and n that are
/// multiples of 16 and dtype bfloat16. On CPU the same in float32 (float64 for float64): values are multiplied by their
/// scales first, which is exact, so that both differ in the sums' rounding alone. `fast`: a GPU may keep sums in fewer
/// digits than float32. Reads no values of meta tensors.
at::Tensor product(const Scaled& a, const Scaled& b, at::ScalarType dtype, bool fast);

/// Each row of a [T, k] times its group's matrix: b's values [E, n, k] and scales [E, n, 1], `ends` [E] int32 the row
/// after each group's last. [T, n].
at::Tensor grouped_product(const Scaled& a, const Scaled& b, const at::Tensor& ends, at::ScalarType dtype, bool fast);

}  // namespace fp8
