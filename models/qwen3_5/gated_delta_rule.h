#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace qwen3_5 {

/// What the gated delta rule computes from: each value head h has a state S [key dim, value dim] that goes from token
/// to token (Yang et al. 2024, "Gated Delta Networks"). With q and k of unit length, q divided by sqrt(key dim):
///
///   S = exp(decay) S + k (beta (v - exp(decay) S^T k))^T,   out = S^T q
///
/// Value head h has key head h / (Hv / Hk). All is computed in float32, or in float64 for float64;
/// bfloat16 on a GPU as delta_by_kernels.h says.
struct DeltaInput {
  at::Tensor q;      ///< [B, S, Hk, key dim]
  at::Tensor k;      ///< [B, S, Hk, key dim]
  at::Tensor v;      ///< [B, S, Hv, value dim]
  at::Tensor decay;  ///< [B, S, Hv], at most 0, float32 or float64
  at::Tensor beta;   ///< [B, S, Hv]
  /// [B, S] bool: tokens that begin a sequence, before which the state is 0. Undefined: none does but the first.
  at::Tensor begins = {};
};

struct DeltaResult {
  at::Tensor out;    ///< [B, S, Hv, value dim], of v's dtype
  at::Tensor state;  ///< [B, Hv, key dim, value dim] after the last token, without gradient
};

/// How a sequence is cut. Within a chunk all tokens are computed at once, by the inverse of a triangular matrix of
/// chunk x chunk; the state goes from chunk to chunk. Backward keeps what goes in and a state for each segment, a
/// multiple of chunks, and computes a segment's other numbers again.
struct DeltaCut {
  std::int64_t chunk = 64;
  std::int64_t segment = 2048;
};

/// In chunks, with a gradient of its own for q, k, v, decay and beta.
DeltaResult gated_delta_rule(const DeltaInput& input, const DeltaCut& cut = {});

/// Token by token, from `state` (undefined: 0): what the definition above says, for generation and as a reference.
DeltaResult recurrent_gated_delta_rule(const DeltaInput& input, const at::Tensor& state = {});

}  // namespace qwen3_5
