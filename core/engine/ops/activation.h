#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// What stands between two products. The gated ones take [..., 2 n], the gate before what it multiplies, and give
/// [..., n]: silu(gate) · up and gelu(gate) · up (Shazeer, "GLU variants improve transformer", 2020).
enum class Activating : std::int64_t { gelu, gelu_tanh, swiglu, geglu_tanh };

constexpr bool is_gated(Activating by) { return by == Activating::swiglu || by == Activating::geglu_tanh; }

/// float64, float32, bfloat16 or half, computed in float32 (float64 for float64) and rounded once. Backward keeps only
/// x and makes its gradient in one pass. Uses the current stream.
at::Tensor activated(const at::Tensor& x, Activating by);

/// The operators, without autograd.
at::Tensor activation(const at::Tensor& x, Activating by);
at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, Activating by);
/// The gradient of x; `gradient` then holds what the activation gives.
at::Tensor activation_both_(const at::Tensor& gradient, const at::Tensor& x, Activating by);

}  // namespace ops
CAPSTAN_END_NAMESPACE
