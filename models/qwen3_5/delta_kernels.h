#pragma once
// The launchers of the gated delta rule's kernels: raw pointers, sizes and a stream.
#include <capstan/kernels/heads.h>
#include <capstan/kernels/launcher.h>

namespace qwen3_5 {

inline constexpr int delta_chunk = 64;         // tokens
inline constexpr int delta_factors = 7;        // numbers of a token that the first kernel leaves to the others
inline constexpr double delta_epsilon = 1e-6;  // of the lengths of q and k

/// Numbers [batch, length, heads] wherever they lie: float32, or bfloat16.
struct TokenNumbers {
  const void* data;
  bool is_float;
  std::int64_t batch_stride, token_stride, head_stride;
};

/// q, k, v and `gradient` are bfloat16 [batch, length, heads, dim] that are read by 16 bytes, dim 64 or 128. What is
/// made in between, of each chunk of each value head ([batch, value heads, chunks] is called [n] here), has tokens
/// after the last one that are zeros.
struct DeltaCall {
  int batch, length, key_heads, value_heads, dim, chunks;
  capstan::kernels::Heads q, k, v, gradient;
  TokenNumbers decay, beta;
  const bool* begins;  ///< null: none
  std::int64_t begin_strides[2];
  const float* first;  ///< [batch, value heads, dim, dim]: the first state. Null: 0
  float* last;         ///< the last state
  void* out;           ///< [batch, length, value heads, dim] bfloat16

  float* factors;  ///< [n, delta_factors, chunk]
  void *u, *w;     ///< [n, chunk, dim] bfloat16
  void* written;   ///< the same; may be u
  void* states;    ///< [n, dim, dim] bfloat16: each chunk's first state

  // Backward only.
  const float* of_last;  ///< the gradient of the last state. Null: 0
  float* of_first;
  void* inverse;             ///< [n, chunk, chunk] bfloat16: (1 + A)^-1
  void* own;                 ///< [n, chunk, dim] bfloat16: what `written` gets through its own chunk's results
  void* of_written;          ///< the same; may be `own`: all that `written` gets
  void* states_after;        ///< [n, dim, dim] bfloat16: the gradients of the chunks' last states
  float* of_units;           ///< [n, 2, chunk, dim]: gradients of unit q (by sqrt(dim)) and of unit k, by value head
  void *of_q, *of_k, *of_v;  ///< [batch, length, heads, dim] bfloat16
  float* of_decay;           ///< [batch, length, value heads]
  void* of_beta;             ///< the same, of beta's type
};

/// Shared memory that the largest of the kernels takes of a thread block.
int delta_shared_bytes();

/// They queue and return; a failed launch is seen by cudaGetLastError. In this order: forward is prepare (not for
/// backward), scan and output; backward is prepare, scan, scan_back, gradients and units.
void delta_prepare(const DeltaCall& call, bool for_backward, CUstream_st* stream);
void delta_scan(const DeltaCall& call, CUstream_st* stream);
void delta_output(const DeltaCall& call, CUstream_st* stream);
void delta_scan_back(const DeltaCall& call, CUstream_st* stream);
void delta_gradients(const DeltaCall& call, CUstream_st* stream);
void delta_units(const DeltaCall& call, CUstream_st* stream);

}  // namespace qwen3_5
