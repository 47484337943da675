#include "ops/activation.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/gelu.h>
#include <capstan/ops/swiglu.h>

#include "ops/again.h"
#include "ops/operator.h"

namespace capstan::ops {
namespace {

c10::string_view form(Activating by) { return by == Activating::gelu ? "none" : "tanh"; }

/// Gate and up in the dtype of the products.
struct Halves {
  at::Tensor gate, up;
  explicit Halves(const at::Tensor& x) {
    const auto parts = x.chunk(2, -1);
    gate = parts[0].to(sum_type(x));
    up = parts[1].to(sum_type(x));
  }
};

at::Tensor value_of(const at::Tensor& gate, Activating by) {
  return by == Activating::swiglu ? gate * gate.sigmoid() : at::gelu(gate, form(by));
}

// d silu(a) / da = s (1 + a (1 - s)) with s = sigmoid(a).
at::Tensor gate_gradient(const at::Tensor& of_value, const at::Tensor& gate, Activating by) {
  if (by != Activating::swiglu) return at::gelu_backward(of_value, gate, form(by));
  const auto s = gate.sigmoid();
  return of_value * s * (1 + gate * (1 - s));
}

// The plain references of the GPU's kernels.
at::Tensor activation_cpu(const at::Tensor& x, std::int64_t kind) {
  const auto by = static_cast<Activating>(kind);
  if (!is_gated(by)) return at::gelu(x, form(by));
  const Halves in(x);
  return (value_of(in.gate, by) * in.up).to(x.scalar_type());
}

at::Tensor activation_backward_cpu(const at::Tensor& gradient, const at::Tensor& x, std::int64_t kind) {
  const auto by = static_cast<Activating>(kind);
  if (!is_gated(by)) return at::gelu_backward(gradient, x, form(by));
  const Halves in(x);
  const auto g = gradient.to(in.gate.scalar_type());
  return at::cat({gate_gradient(g * in.up, in.gate, by), g * value_of(in.gate, by)}, -1).to(x.scalar_type());
}

at::Tensor activation_both_cpu(const at::Tensor& gradient, const at::Tensor& x, std::int64_t kind) {
  at::Tensor of_x = activation_backward_cpu(gradient, x, kind);
  gradient.copy_(activation_cpu(x, kind));
  return of_x;
}

at::Tensor activation_meta(const at::Tensor& x, std::int64_t kind) {
  auto shape = x.sizes().vec();
  if (is_gated(static_cast<Activating>(kind))) shape.back() /= 2;
  return at::empty(shape, x.options());
}

at::Tensor gradient_meta(const at::Tensor&, const at::Tensor& x, std::int64_t) { return room_for(x); }

class ActivationFunction : public Function<ActivationFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::int64_t kind) {
    ctx->save_for_backward({x});
    ctx->saved_data["kind"] = kind;
    return activation(x, static_cast<Activating>(kind));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {activation_backward(gradients[0], ctx->get_saved_variables()[0], kind_of(ctx)), at::Tensor()};
  }
  static at::Tensor again(AutogradContext* ctx) { return activation(ctx->get_saved_variables()[0], kind_of(ctx)); }

 private:
  static Activating kind_of(AutogradContext* ctx) { return static_cast<Activating>(ctx->saved_data["kind"].toInt()); }
};

}  // namespace

const Again activation_again = again_of<ActivationFunction>();

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "activation(Tensor x, int kind) -> Tensor", &activation_cpu, &activation_meta);
  define(m, "activation_backward(Tensor gradient, Tensor x, int kind) -> Tensor", &activation_backward_cpu,
         &gradient_meta);
  define(m, "activation_both_(Tensor(a!) gradient, Tensor x, int kind) -> Tensor", &activation_both_cpu,
         &gradient_meta);
}

at::Tensor activation(const at::Tensor& x, Activating by) {
  static const auto op = find_operator<decltype(activation_cpu)>("capstan::activation");
  return op.call(x, static_cast<std::int64_t>(by));
}

at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, Activating by) {
  static const auto op = find_operator<decltype(activation_backward_cpu)>("capstan::activation_backward");
  return op.call(gradient, x, static_cast<std::int64_t>(by));
}

at::Tensor activation_both_(const at::Tensor& gradient, const at::Tensor& x, Activating by) {
  static const auto op = find_operator<decltype(activation_both_cpu)>("capstan::activation_both_");
  return op.call(gradient, x, static_cast<std::int64_t>(by));
}

at::Tensor activated(const at::Tensor& x, Activating by) {
  CAPSTAN_ASSERT(!is_gated(by) || (x.dim() >= 1 && x.size(-1) % 2 == 0));
  return ActivationFunction::apply(x, static_cast<std::int64_t>(by));
}

at::Tensor gelu(const at::Tensor& x, bool tanh) {
  return activated(x, tanh ? Activating::gelu_tanh : Activating::gelu);
}

at::Tensor swiglu(const at::Tensor& x) { return activated(x, Activating::swiglu); }

}  // namespace capstan::ops
