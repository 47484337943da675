#pragma once
// The CUDA kernels' launchers.
#include <capstan/kernels/launcher.h>

namespace fp8::kernels {

/// A stack of matrices x [batch, rows, columns] of bfloat16 or float32 in 8 bits: see quantise.h. Columns are a
/// multiple of 16, and all pointers begin at whole 16 bytes. Magnitudes are floats, compared as their bits.
struct QuantiseCall {
  const void* x;
  bool is_bfloat16;  ///< else float32
  std::int64_t batch, rows, columns;
  bool whole;               ///< one magnitude and scale for all, or one a row of the result
  bool e5m2;                ///< the format; else e4m3
  const float* magnitudes;  ///< what was found before; null: found on the way
  void* values;
  float* scales;
  std::int64_t padded_rows;  ///< for quantise_columns: elements of a row of the result, rounded up to 16
  std::int64_t* counts;      ///< see Rounding::counts; rows are counted by quantise_rows and both of SwiGLU; null: none
  float* column_magnitudes;  ///< for column_magnitudes()
};
/// Writes the largest magnitude of each row to `scales` instead of scales, and nothing else.
void row_magnitudes(const QuantiseCall& call, CUstream_st* stream);
/// Writes that of each column, or of all if `whole`, to column_magnitudes, which holds zeros before.
void column_magnitudes(const QuantiseCall& call, CUstream_st* stream);
/// values [batch, rows, columns], scales [batch, rows] or one.
void quantise_rows(const QuantiseCall& call, CUstream_st* stream);
/// Quantises SwiGLU's result for x [rows, 2 columns] in bfloat16: values [rows, columns], a scale a row.
void quantise_swiglu(const QuantiseCall& call, CUstream_st* stream);
/// Quantises its gradient for x and a gradient [rows, columns]: values [rows, 2 columns].
void quantise_swiglu_backward(const QuantiseCall& call, const void* gradient, CUstream_st* stream);
/// The transpose: values [batch, columns, padded_rows], scales [batch, columns] or one. Without magnitudes each column
/// finds its own, and x is read once; finds_columns says whether that is possible.
void quantise_columns(const QuantiseCall& call, CUstream_st* stream);
bool finds_columns(const QuantiseCall& call);

/// A matrix x [rows, columns] of bfloat16 or float32 in e4m3 by blocks of 128: see quantise_blocks.h. Columns are a
/// multiple of 128, padded_rows is rows rounded up to one, and all pointers begin at whole 16 bytes.
struct BlocksCall {
  const void* x;
  bool is_bfloat16;                         ///< else float32
  std::int64_t rows, padded_rows, columns;  ///< the result's
  void* values;                             ///< [padded_rows, columns]
  float* scales;             ///< [columns / 128, padded_rows]; for tiles [padded_rows / 128, scales_apart]
  void* transposed;          ///< [columns, padded_rows]
  float* transposed_scales;  ///< [padded_rows / 128, columns]; for tiles [columns / 128, transposed_scales_apart]
  std::int64_t scales_apart, transposed_scales_apart;  ///< for tiles
  std::int64_t* counts;                                ///< null: none
};
/// Values and scales.
void quantise_blocks(const BlocksCall& call, CUstream_st* stream);
/// These and the transpose's.
void quantise_blocks_both(const BlocksCall& call, CUstream_st* stream);
/// Values and scales of tiles, or the transpose's, or both: what is null is not written.
void quantise_tiles(const BlocksCall& call, CUstream_st* stream);
/// Values and scales of SwiGLU's result for x [rows, 2 columns] of bfloat16.
void quantise_swiglu_blocks(const BlocksCall& call, CUstream_st* stream);
/// … of its gradient for x [rows, columns] and a gradient [rows, columns / 2].
void quantise_swiglu_blocks_backward(const BlocksCall& call, const void* gradient, CUstream_st* stream);

}  // namespace fp8::kernels
