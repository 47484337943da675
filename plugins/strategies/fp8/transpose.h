#pragma once
// The transposing kernel's launcher.
#include <capstan/kernels/launcher.h>

namespace fp8 {

/// Matrices of e4m3, one after the other; rows and columns are multiples of 4, and all begin at whole 4 bytes.
struct TransposeCall {
  const std::uint8_t* in;      ///< [matrices, rows, columns]
  const float* row_scales;     ///< [matrices, rows]
  const float* column_scales;  ///< [matrices, columns]: powers of two
  std::uint8_t* out;           ///< [matrices, columns, rows]
  std::int64_t matrices, rows, columns;
};

/// Queues and returns; a failed launch is seen by cudaGetLastError.
void transpose(const TransposeCall& call, CUstream_st* stream);

}  // namespace fp8
