#include "operators.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <type_traits>

namespace gpt_oss {
namespace {

at::Tensor biased(const at::Tensor& x, const Maybe& bias, const Maybe& group) {
  return bias ? x + bias->index_select(0, *group) : x;
}

/// Gate and up as they are multiplied, and whether a limit has cut them.
struct Limited {
  at::Tensor gate, up, gate_passes, up_passes;
  Limited(const at::Tensor& x, double limit) {
    const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto parts = x.chunk(2, -1);
    const at::Tensor a = parts[0].to(type), b = parts[1].to(type);
    gate = a.clamp_max(limit);
    up = b.clamp(-limit, limit);
    gate_passes = a.le(limit);
    up_passes = b.abs().le(limit);
  }
};

at::Tensor forward_cpu(const at::Tensor& x, const Maybe& bias, const Maybe& group, double limit, double slope) {
  const Limited in(biased(x, bias, group), limit);
  return (in.gate * (slope * in.gate).sigmoid() * (in.up + 1)).to(x.scalar_type());
}

// d (a s) / da = s (1 + slope a (1 - s)) with s = sigmoid(slope a).
at::Tensor backward_cpu(const at::Tensor& gradient, const at::Tensor& x, const Maybe& bias, const Maybe& group,
                        double limit, double slope) {
  const Limited in(biased(x, bias, group), limit);
  const at::Tensor g = gradient.to(in.gate.scalar_type()), s = (slope * in.gate).sigmoid();
  const at::Tensor of_gate = g * (in.up + 1) * s * (1 + slope * in.gate * (1 - s)) * in.gate_passes;
  return at::cat({of_gate, g * in.gate * s * in.up_passes}, -1).to(x.scalar_type());
}

at::Tensor forward_meta(const at::Tensor& x, const Maybe&, const Maybe&, double, double) {
  return at::empty({x.size(0), x.size(1) / 2}, x.options());
}

at::Tensor backward_meta(const at::Tensor&, const at::Tensor& x, const Maybe&, const Maybe&, double, double) {
  return at::empty(x.sizes(), x.options());
}

static_assert(std::is_same_v<Forward, decltype(forward_cpu)> && std::is_same_v<Backward, decltype(backward_cpu)>);

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("clamped_swiglu(Tensor x, Tensor? bias, Tensor? group, float limit, float slope) -> Tensor");
  m.def(
      "clamped_swiglu_backward(Tensor gradient, Tensor x, Tensor? bias, Tensor? group, float limit, float slope) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("clamped_swiglu", &forward_cpu);
  m.impl("clamped_swiglu_backward", &backward_cpu);
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("clamped_swiglu", &forward_meta);
  m.impl("clamped_swiglu_backward", &backward_meta);
}

}  // namespace gpt_oss
