#pragma once
// The decoding kernel's launcher: raw pointers, sizes and a stream.
#include <capstan/kernels/launcher.h>

namespace mxfp4 {

/// Matrices of `elements` each, a multiple of 32. `out` begins at whole 16 bytes.
struct DecodeCall {
  void* out;  ///< elements of `type`; each matrix begins `apart` elements after the one before
  capstan::kernels::FloatType type;
  std::int64_t matrices, elements, apart;
  const std::uint8_t* codes;   ///< [matrices, elements / 2]
  const std::uint8_t* scales;  ///< [matrices, elements / 32]
};

/// Queues and returns; a failed launch is seen by cudaGetLastError.
void decode(const DecodeCall& call, CUstream_st* stream);

}  // namespace mxfp4
