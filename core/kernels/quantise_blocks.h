#pragma once
// Launchers of quantise_blocks.h's kernels.
#include "kernels/launchers.h"

namespace capstan::kernels {

/// A matrix x [rows, columns] of bfloat16 or float32 in e4m3 by blocks of 128: see quantise_blocks.h. Columns are a
/// multiple of 128, padded_rows is rows rounded up to one, and all pointers begin at whole 16 bytes.
struct BlocksCall {
  const void* x;
  FloatType type;
  std::int64_t rows, padded_rows, columns;  ///< of the result
  void* values;                             ///< [padded_rows, columns]
  float* scales;             ///< [columns / 128, padded_rows]; of tiles [padded_rows / 128, scales_apart]
  void* transposed;          ///< [columns, padded_rows]
  float* transposed_scales;  ///< [padded_rows / 128, columns]; of tiles [columns / 128, transposed_scales_apart]
  std::int64_t scales_apart, transposed_scales_apart;  ///< of tiles
  std::int64_t* counts;                                ///< null: none
};
/// Values and scales.
void quantise_blocks(const BlocksCall& call, CUstream_st* stream);
/// These and the transpose's.
void quantise_blocks_both(const BlocksCall& call, CUstream_st* stream);
/// Of tiles, these or the transpose's or both: what is null is not written.
void quantise_tiles(const BlocksCall& call, CUstream_st* stream);
/// Values and scales of SwiGLU's result for x [rows, 2 columns] of bfloat16.
void quantise_swiglu_blocks(const BlocksCall& call, CUstream_st* stream);
/// … of its gradient for x [rows, columns] and a gradient [rows, columns / 2].
void quantise_swiglu_blocks_backward(const BlocksCall& call, const void* gradient, CUstream_st* stream);

}  // namespace capstan::kernels
