#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Tokens that follow those of a cache. All tensors but `positions` and `slopes` have one dtype; `dim` has stride 1.
struct DecodeAttention {
  at::Tensor q;  ///< [B, heads, S, dim]
  at::Tensor k;  ///< [B, kv heads, S, dim], as v; kv heads divides heads
  at::Tensor v;
  at::Tensor keys;  ///< [B, kv heads, capacity, dim], contiguous, as values: written at `positions`
  at::Tensor values;
  at::Tensor positions;  ///< [B, S] int64, below the capacity
  at::Tensor slopes;  ///< [heads] float32 or q's float64: slope · key position is added to scores. Undefined: none is
  double scale = 1;   ///< multiplies q k
  std::int64_t window = 0;  ///< a token sees this many positions, its own included; the capacity: all up to its own
};

/// Puts the tokens' keys and values into the cache and attends from each to the positions up to its own: [B, heads, S,
/// dim] in q's dtype. Rows may stand at different positions. Without gradient. On GPUs of compute capability 8 or more,
/// one token a row of 16 bits, with heads of a multiple of 8 columns up to 256, takes a kernel that reads what a row
/// fills, by blocks of keys that depend on their positions only: a row's bits do not depend on other rows or on the
/// capacity. Else ATen's products read up to the longest row's position, on a GPU the capacity.
at::Tensor decode_attention(const DecodeAttention& how);

}  // namespace ops
CAPSTAN_END_NAMESPACE
