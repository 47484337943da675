#pragma once
// The kernels' launchers.
#include <capstan/kernels/heads.h>
#include <capstan/kernels/launcher.h>

namespace bloom {

using capstan::kernels::FloatType;

/// Queries and keys of a projection [batch, length, heads, 3, dim], each [batch, length, heads, wide]: see operators.h.
struct WidenCall {
  const void* fused;
  void *q, *k;
  FloatType type;
  std::int64_t batch, length;
  int heads, dim, wide;
  const void* slopes;  ///< [heads] float32; float64 for float64 numbers
  const std::int64_t* positions;
  std::int64_t position_strides[2];
  double scale;
};

/// A projection [batch, length, heads, 3, dim] from the first `dim` columns of each of `parts`.
struct JoinCall {
  capstan::kernels::Heads parts[3];
  void* fused;
  FloatType type;
  std::int64_t batch, length;
  int heads, dim;
};

/// They queue and return; a failed launch is seen by cudaGetLastError.
void widen_heads(const WidenCall& call, CUstream_st* stream);
void join_heads(const JoinCall& call, CUstream_st* stream);

}  // namespace bloom
