#pragma once
// The operators that attention.h calls: operators.cc has their schemas, CPU code and shapes, *_cuda.cc their CUDA side.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <tuple>

namespace bloom {

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// q, k and v of the heads in `fused` [B, S, heads · 3 · dim]: views [B, heads, S, dim].
struct Heads {
  Heads(const at::Tensor& fused, std::int64_t heads);
  at::Tensor q, k, v;
};

/// "capstan::alibi_attention": what attention gives [B, heads, S, dim], and the logarithms of the sums of exponentials
/// [B, heads, S], float32 (float64 for float64).
using Forward = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& fused, const at::Tensor& slopes);

/// "capstan::alibi_attention_back": fused's gradient, from that of what attention gave.
using Backward = at::Tensor(const at::Tensor& gradient, const at::Tensor& fused, const at::Tensor& out,
                            const at::Tensor& sums, const at::Tensor& slopes);

/// "capstan::has_alibi_attention": whether the device's kernels take it, with its backward or without.
using Has = bool(const at::Tensor& fused, std::int64_t heads, bool backward);

/// "capstan::bloom_heads": of fused [B, S, heads, 3, dim] q and k widened as ops::with_bias_columns does it, for the
/// bias slopes[head] · (positions - (S - 1)), each [B, S, heads, wide]. Computed in the slopes' dtype.
using Widened = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& fused, const at::Tensor& slopes,
                                                   const at::Tensor& positions, double scale);

/// "capstan::bloom_heads_back": fused's gradient, from those of both and of v.
using Joined = at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t dim);

}  // namespace bloom
