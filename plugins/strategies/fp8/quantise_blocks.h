#pragma once
#include <utility>

#include "quantise.h"

namespace fp8 {

/// How many neighbours of a row share a scale; a tile has as many rows.
constexpr std::int64_t quantised_block = 128;

// e4m3 by blocks (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", 3.3), scales as scales_for() gives them. The
// functions take x [m, k], float64, float32, bfloat16 or half, with any strides, k a multiple of 128. On CUDA bfloat16
// and float32 run as kernels that read x once; anything else takes plain calls of ATen, which the kernels equal bit for
// bit. They use the current stream and wait for nothing. Not differentiable.

/// A scale for each block of 128 in a row: values [M, k] and scales [M, k / 128] with strides {1, M}. M is m rounded up
/// to 128; the rows beyond are zeros. `counts` as Rounding::counts, but of every 128th row, and blocks in the place of
/// rows.
Quantised quantise_blocks(const at::Tensor& x, const at::Tensor& counts = {});

/// That, and the same of the transpose: values [k, M] and scales [k, M / 128] with strides {1, k}.
std::pair<Quantised, Quantised> quantise_blocks_both(const at::Tensor& x, const at::Tensor& counts = {});

/// A scale for each tile of 128 x 128 of w [n, k], n a multiple of 128 too: values [n, k], or transposed [k, n]. Both
/// have the same numbers, and scales that are each other's transpose: see tile_scales.
Quantised quantise_tiles(const at::Tensor& w, bool transposed);

/// Scales of tiles [a, b], float32, as products take them: [a, b rounded up to 4], contiguous; 1 in what was added.
at::Tensor tile_scales(const at::Tensor& scales);

/// quantise_blocks(swiglu(x)) for x [m, 2 k], and quantise_blocks of swiglu's gradient [m, 2 k] for x and a gradient
/// [m, k]. The numbers are those of both in turn, rounded to x's dtype in between; on CUDA bfloat16 goes through memory
/// once.
Quantised quantise_swiglu_blocks(const at::Tensor& x, const at::Tensor& counts = {});
Quantised quantise_swiglu_blocks_backward(const at::Tensor& gradient, const at::Tensor& x,
                                          const at::Tensor& counts = {});

/// What blocks or tiles stand for, in `dtype` [rows, k].
at::Tensor numbers_of_blocks(const Quantised& x, at::ScalarType dtype);
at::Tensor numbers_of_tiles(const Quantised& x, at::ScalarType dtype);

}  // namespace fp8
