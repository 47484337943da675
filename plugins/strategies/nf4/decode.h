#pragma once
// The decoding kernel's launcher: raw pointers, sizes and a stream.
#include <capstan/kernels/launcher.h>

#include "places.h"

namespace nf4 {

/// Matrices of `elements` each, a multiple of 64; the parts are codec.h's. `out` and `codes` begin at whole 16 bytes.
struct DecodeCall {
  void* out;  ///< elements of `type`; each matrix begins `apart` elements after the one before
  capstan::kernels::FloatType type;
  std::int64_t matrices, elements, apart;
  InWhole in_whole;  ///< where each matrix's elements are
  const float* map;
  const std::uint8_t* codes;
  const std::uint8_t* magnitudes;
  const float* nested;
  const float* offsets;
};

/// Queues and returns; a failed launch is seen by cudaGetLastError.
void decode(const DecodeCall& call, CUstream_st* stream);

}  // namespace nf4
