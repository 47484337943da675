#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Rotary position embedding (Su et al., "RoFormer", 2021) in the halves form of Hugging Face's Llama: with
/// a = position * frequencies[i] and half = dim / 2, for i < half
///
///     out[i]        = x[i] cos a - x[i + half] sin a
///     out[i + half] = x[i + half] cos a + x[i] sin a
///
/// `x` is [B, S, heads, dim] of any strides whose last one is 1 (so a part of a fused projection), float64, float32,
/// bfloat16 or half; `positions` [B, S] int64 on x's device; `frequencies` dim / 2 numbers, dim at most 512. The result
/// is contiguous.
///
/// Numbers: angle, cosine, sine and products are float32 (frequencies are rounded to it first), float64 for float64,
/// and rounded once. Backward rotates by the opposite angle and keeps only positions. Uses the current stream.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const std::vector<double>& frequencies);

/// q [B, S, queries, dim], k [B, S, keys, dim] and v [B, S, the rest, dim] of a fused projection.
struct RotaryHeads {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

/// The heads of `fused` [B, S, heads, dim], whose last stride is 1, the others any: q, then k, both turned as by
/// `rotary`, then v. They turn where they lie: the results share fused's memory and its old values are lost, so pass
/// what no other function keeps (a product's result). Backward writes the gradient of `fused` in one pass from those of
/// the three, whatever their strides. Numbers as above.
RotaryHeads rotary_heads_(const at::Tensor& fused, std::int64_t queries, std::int64_t keys, const at::Tensor& positions,
                          const std::vector<double>& frequencies);

}  // namespace ops
CAPSTAN_END_NAMESPACE
