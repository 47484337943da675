#include "ops/clamped_swiglu.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

at::Tensor biased(const at::Tensor& x, const Maybe& bias, const Maybe& group) {
  return bias ? x + bias->index_select(0, *group) : x;
}

/// Gate and up as they are multiplied, and whether a limit has cut them.
struct Limited {
  at::Tensor gate, up, gate_passes, up_passes;
  Limited(const at::Tensor& x, double limit) {
    const auto type = sum_type(x);
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
  return room_for(x);
}

// A product with which rows belong to which group adds in float32 and in a fixed order; index_add_ would add with
// atomics, in the numbers' own type.
at::Tensor sums_of_groups(const at::Tensor& rows, const at::Tensor& group, std::int64_t groups) {
  if (rows.is_cpu()) {
    const auto type = sum_type(rows);
    const auto sums = at::zeros({groups, rows.size(1)}, rows.options().dtype(type));
    return sums.index_add_(0, group, rows.to(type)).to(rows.scalar_type());
  }
  const auto members = at::zeros({groups, rows.size(0)}, rows.options()).scatter_(0, group.unsqueeze(0), 1);
  return members.mm(rows);
}

class ClampedSwigluFunction : public Function<ClampedSwigluFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Maybe& bias, const Maybe& group,
                            double limit, double slope) {
    ctx->save_for_backward({x, bias.value_or(at::Tensor()), group.value_or(at::Tensor())});
    ctx->saved_data["limit"] = limit;
    ctx->saved_data["slope"] = slope;
    static const auto op = find_operator<decltype(forward_cpu)>("capstan::clamped_swiglu");
    return op.call(x, bias, group, limit, slope);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<decltype(backward_cpu)>("capstan::clamped_swiglu_backward");
    const auto saved = ctx->get_saved_variables();
    const auto &bias = saved[1], &group = saved[2];
    const auto of_x = op.call(gradients[0].contiguous(), saved[0], maybe(bias), maybe(group),
                              ctx->saved_data["limit"].toDouble(), ctx->saved_data["slope"].toDouble());
    variable_list out(5);
    if (bias.defined() && ctx->needs_input_grad(1)) out[1] = sums_of_groups(of_x, group, bias.size(0));
    out[0] = of_x;
    return out;
  }
};

class AddGroupBiasesFunction : public Function<AddGroupBiasesFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& bias,
                            const at::Tensor& group) {
    ctx->save_for_backward({group});
    ctx->saved_data["groups"] = bias.size(0);
    return biased(x, bias, group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    variable_list out(3);
    out[0] = gradients[0];
    if (ctx->needs_input_grad(1)) {
      out[1] = sums_of_groups(gradients[0], ctx->get_saved_variables()[0], ctx->saved_data["groups"].toInt());
    }
    return out;
  }
};

void check(const at::Tensor& x, const GroupBiases& biases) {
  CAPSTAN_ASSERT(x.dim() == 2);
  if (!biases.bias.defined()) return;
  CAPSTAN_ASSERT(biases.bias.dim() == 2 && biases.bias.size(1) == x.size(1));
  CAPSTAN_ASSERT(biases.bias.scalar_type() == x.scalar_type() && biases.group.sizes() == at::IntArrayRef({x.size(0)}));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "clamped_swiglu(Tensor x, Tensor? bias, Tensor? group, float limit, float slope) -> Tensor", &forward_cpu,
         &forward_meta);
  define(m,
         "clamped_swiglu_backward(Tensor gradient, Tensor x, Tensor? bias, Tensor? group, float limit, float slope) -> "
         "Tensor",
         &backward_cpu, &backward_meta);
}

at::Tensor clamped_swiglu(const at::Tensor& x, const GroupBiases& biases, const SwigluLimits& limits) {
  check(x, biases);
  CAPSTAN_ASSERT(x.size(1) % 2 == 0);
  return ClampedSwigluFunction::apply(x, maybe(biases.bias), maybe(biases.group), limits.limit, limits.slope);
}

at::Tensor add_group_biases(const at::Tensor& x, const GroupBiases& biases) {
  check(x, biases);
  return biases.bias.defined() ? AddGroupBiasesFunction::apply(x, biases.bias, biases.group) : x;
}

}  // namespace capstan::ops
