#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// How attention to segments of one list of tokens computes its scores.
struct SegmentAttention {
  /// [segments + 1] int32, on the device of the tokens: where each segment begins, from 0 on, and the end of the last.
  /// Segments may be empty.
  at::Tensor bounds;
  std::int64_t longest = 0;            ///< tokens of a segment, at most
  double scale = 1;                    ///< multiplies q k
  std::optional<std::int64_t> window;  ///< a token sees this many positions, its own included; all when not set
  /// [heads]: a logit that joins the sum of each of the head's softmaxes, without a value; undefined: none does.
  at::Tensor sinks = {};
};

/// Whether segment_attention takes heads of `columns` columns in x's dtype on x's device: bfloat16 and half on GPUs of
/// compute capability 8.0 and above, whole 8 columns up to 256 (192 where backward has no more). Meta tensors are
/// treated as on the newest GPUs.
bool has_segment_attention(const at::Tensor& x, std::int64_t columns);

/// Causal attention within each segment: q [T, heads, columns], k [T, kv heads, columns], v [T, kv heads, at most
/// columns], with stride 1 in the columns -> [T, heads, v's columns]. All T tokens must be in segments. By LibTorch's
/// flash attention with cum_seq (FlashAttention-2, Dao 2023): any lengths in one launch, and a shape that is new costs
/// nothing. Waits for nothing; differentiable; gradients do not depend on the run where
/// at::globalContext().deterministicAlgorithms().
at::Tensor segment_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const SegmentAttention& how);

}  // namespace ops
CAPSTAN_END_NAMESPACE
