#pragma once
// The operators that have kernels: operators.cc has their schemas and what they make on the meta device, *_cuda.cc what
// they do on CUDA. What devices without kernels do instead is in gated_delta_rule.cc, causal_convolution.cc and
// gate.cc.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "tensors.h"

namespace qwen3_5 {

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// "capstan::has_delta_rule": whether v's device runs the kernels.
using HasDelta = bool(const at::Tensor& v);

/// "capstan::delta_rule": of q, k, v, decay, beta as gated_delta_rule.h has them, from a first state [B, Hv, key dim,
/// value dim] (none: 0): what comes out, and the last state. Numbers are bfloat16, key dim and value dim 64 or 128 and
/// equal, decays float32, beta bfloat16 or float32.
using Delta = std::tuple<at::Tensor, at::Tensor>(at::TensorList inputs, const Maybe& begins, const Maybe& first);

/// "capstan::delta_rule_back": the gradients of the five inputs and of the first state, from those of what came out and
/// of the last state (none: 0).
using DeltaBack = std::vector<at::Tensor>(const at::Tensor& gradient, at::TensorList inputs, const Maybe& begins,
                                          const Maybe& first, const Maybe& of_last);

/// "capstan::silu_convolution": causal_convolution() of bfloat16 or half, with four taps and whole packs of channels.
using Convolution = at::Tensor(const at::Tensor& x, const at::Tensor& w, const Maybe& positions);

/// "capstan::silu_convolution_back": x's gradient and w's, which is empty unless it is asked for.
using ConvolutionBack = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& gradient, const at::Tensor& x,
                                                           const at::Tensor& w, const Maybe& positions, bool of_w);

/// "capstan::silu_gate": gated_by() of bfloat16 or half, of whole packs.
using Gate = at::Tensor(const at::Tensor& x, const at::Tensor& z);

/// "capstan::silu_gate_back": both gradients.
using GateBack = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& gradient, const at::Tensor& x,
                                                    const at::Tensor& z);

/// Do kernels read its rows? They take whole packs of 16-bit numbers. The meta device stands for a GPU.
inline bool is_for_kernels(const at::Tensor& x) {
  return (x.is_cuda() || x.is_meta()) && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf) &&
         x.size(-1) % 8 == 0 && x.numel() > 0;
}

}  // namespace qwen3_5
