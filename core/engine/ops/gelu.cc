#include <ATen/ATen.h>
#include <capstan/ops/gelu.h>

#include "ops/again.h"
#include "ops/operator.h"

namespace capstan::ops {
namespace {

c10::string_view form(bool tanh) { return tanh ? "tanh" : "none"; }

// The plain references of the GPU's kernels.
at::Tensor gelu_cpu(const at::Tensor& x, bool tanh) { return at::gelu(x, form(tanh)); }

at::Tensor gelu_backward_cpu(const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
  return at::gelu_backward(gradient, x, form(tanh));
}

at::Tensor gelu_both_cpu(const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
  at::Tensor of_x = gelu_backward_cpu(gradient, x, tanh);
  gradient.copy_(gelu_cpu(x, tanh));
  return of_x;
}

at::Tensor gelu_backward_meta(const at::Tensor&, const at::Tensor& x, bool) { return at::empty_like(x); }

at::Tensor value_of(const at::Tensor& x, bool tanh) {
  static const auto op = find_operator<decltype(gelu_cpu)>("capstan::gelu");
  return op.call(x, tanh);
}

class GeluFunction : public Function<GeluFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, bool tanh) {
    ctx->save_for_backward({x});
    ctx->saved_data["tanh"] = tanh;
    return value_of(x, tanh);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<decltype(gelu_backward_cpu)>("capstan::gelu_backward");
    return {op.call(gradients[0], ctx->get_saved_variables()[0], ctx->saved_data["tanh"].toBool()), at::Tensor()};
  }
  static at::Tensor again(AutogradContext* ctx) {
    return value_of(ctx->get_saved_variables()[0], ctx->saved_data["tanh"].toBool());
  }
};

}  // namespace

const Again gelu_again = again_of<GeluFunction>();

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "gelu(Tensor x, bool tanh) -> Tensor", &gelu_cpu,
         [](const at::Tensor& x, bool) { return at::empty_like(x); });
  define(m, "gelu_backward(Tensor gradient, Tensor x, bool tanh) -> Tensor", &gelu_backward_cpu, &gelu_backward_meta);
  define(m, "gelu_both_(Tensor(a!) gradient, Tensor x, bool tanh) -> Tensor", &gelu_both_cpu, &gelu_backward_meta);
}

at::Tensor gelu(const at::Tensor& x, bool tanh) { return GeluFunction::apply(x, tanh); }

}  // namespace capstan::ops
