#pragma once
#include <ATen/core/Tensor.h>

#include "quantise_blocks.h"

namespace fp8 {

/// a b^T of a [m, k] and b [n, k], in `dtype` [m, n]. On CUDA one scaled product, which takes k and n that are
/// multiples of 16 and dtype bfloat16. On CPU the same in float32 (float64 for float64): values are multiplied by their
/// scales first, which is exact, so that both differ only in the sums' rounding. `fast`: a GPU may keep sums in fewer
/// digits than float32. Reads no values of meta tensors.
at::Tensor product(const Quantised& a, const Quantised& b, at::ScalarType dtype, bool fast);

/// The same of `a` in blocks and `b` in blocks or tiles, as quantise_blocks and quantise_tiles make them. A GPU's
/// sums are as precise as float32's.
at::Tensor block_product(const Quantised& a, const Quantised& b, at::ScalarType dtype);

/// Each row of a [T, k] times its group's matrix: b's values [E, n, k] and scales [E, n, 1], `ends` [E] int32 the row
/// after each group's last. [T, n].
at::Tensor grouped_product(const Quantised& a, const Quantised& b, const at::Tensor& ends, at::ScalarType dtype,
                           bool fast);

}  // namespace fp8
