#pragma once
// The kernels' launchers: raw pointers, sizes and a stream.
#include <cstdint>

struct CUstream_st;  // what cudaStream_t points to

namespace qwen3 {

enum class FloatType : int { float64, float32, bfloat16, half };

/// Heads [batch, length, heads, dim] wherever they lie; strides in elements, that of the last dimension is 1.
struct HeadList {
  const void* data;
  int heads;
  std::int64_t batch_stride, token_stride, head_stride;
};

struct Frequencies {
  static constexpr int capacity = 256;
  double value[capacity];
};

/// Writes `out` [batch, length, heads, dim], contiguous. Forward: the queries and keys of `fused`, normed and turned.
/// Backward: the gradient of all of fused from `gradients`, those of q, k and v.
struct HeadsCall {
  HeadList fused;
  HeadList gradients[3];
  void* out;
  const void* norms[2];  ///< of queries and of keys [dim], at whole 16 bytes
  FloatType type;
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
