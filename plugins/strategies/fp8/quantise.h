#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace fp8 {

/// Rows [..., k] in 8 bits: values · scales is what they stand for.
struct Quantised {
  at::Tensor values;  ///< [..., k] e4m3 or e5m2 (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"), contiguous
  at::Tensor scales;  ///< float32 powers of two: [..., 1], or [1, 1] for all rows
};

/// How matrices [..., m, k] are rounded.
struct Rounding {
  at::ScalarType format = at::kFloat8_e4m3fn;  ///< or at::kFloat8_e5m2
  bool by_row = true;                          ///< a scale for each row of the result, or one for all of it
  bool transposed = false;                     ///< the result is the transpose: rows of k, a multiple of 16 of them
  /// [4] int64 on x's device, to which is added how many of x's numbers are not zero and become zero, how many are not
  /// zero (both in every 16th row), how many rows become NaN, and how many there are. Undefined: nothing is counted,
  /// nor is anything where only the transposed result is made.
  at::Tensor counts = {};
};

/// What a transposed result's rows are padded to, with zeros: what products in 8 bits sum over.
constexpr std::int64_t quantised_multiple = 16;

// The functions take x [..., m, k], float64, float32, bfloat16 or half, with any strides. On CUDA bfloat16 and float32
// run as kernels of one pass over x where k is a multiple of 16, in two dimensions or three: by row x is read once; the
// magnitudes of the transpose's rows, and one of all, take a pass of their own. Anything else takes plain calls of
// ATen, which the kernels equal bit for bit. They use the current stream and wait for nothing. Not differentiable.

/// The largest magnitude of each row, [..., m, 1] (of the transpose, [..., k, 1]) float32; or of all of them, [1, 1].
/// NaN where x has one.
at::Tensor magnitudes(const at::Tensor& x, const Rounding& how);

/// The smallest powers of two by which such magnitudes can be divided and stay in the format's range. NaN for what is
/// not finite, so that a run stops where its numbers do and not later. Being powers of two they cost no digits, and
/// ranks that hold pieces of a sum scale each piece exactly as they would scale the sum.
at::Tensor scales_for(const at::Tensor& magnitudes, at::ScalarType format);

/// x divided by its scales and rounded to nearest, ties to even: [..., m, k], or transposed [..., k, m rounded up].
/// `largest`: the magnitudes by which it is scaled, as magnitudes() gives them; undefined: x's own.
Quantised quantise(const at::Tensor& x, const Rounding& how, const at::Tensor& largest = {});

/// x [m, k] as it is and transposed, for a product that sums over k and one that sums over m; the magnitude of all is
/// found once.
std::pair<Quantised, Quantised> quantise_both(const at::Tensor& x, const Rounding& how);

/// quantise(swiglu(x), how) for x [m, 2 k], and the same of swiglu's gradient for x and a gradient [m, k]: [m, 2 k].
/// The numbers are those of both in turn, rounded to x's dtype in between; on CUDA bfloat16 by row goes through memory
/// once (k at most 16384). `how.transposed` is false.
Quantised quantise_swiglu(const at::Tensor& x, const Rounding& how);
Quantised quantise_swiglu_backward(const at::Tensor& gradient, const at::Tensor& x, const Rounding& how);

}  // namespace fp8
