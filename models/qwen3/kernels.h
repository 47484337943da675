#pragma once
// The kernels' launchers.
#include <capstan/kernels/heads.h>
#include <capstan/kernels/launcher.h>

namespace qwen3 {

using capstan::kernels::Heads;
using Frequencies = capstan::kernels::RotaryFrequencies;

/// Writes `out` [batch, length, heads, dim], contiguous. Forward: the queries and keys of `fused`, normed and turned.
/// Backward: the gradient of all of fused from `gradients`, those of q, k and v.
struct HeadsCall {
  Heads fused;
  Heads gradients[3];
  void* out;
  const void* norms[2];  ///< of queries and of keys [dim], at whole 16 bytes
  capstan::kernels::FloatType type;
  int queries, keys, rest, half;
  std::int64_t batch, length;
  const std::int64_t* positions;  ///< [batch, length], contiguous
  double epsilon;
  Frequencies frequencies;
};

/// They queue and return; a failed launch is seen by cudaGetLastError.
void normed_heads(const HeadsCall& call, CUstream_st* stream);
void normed_heads_back(const HeadsCall& call, CUstream_st* stream);

}  // namespace qwen3
