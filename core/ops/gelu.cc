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

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, bool tanh) {
    ctx->save_for_backward({x});
    ctx->saved_data["tanh"] = tanh;
    return value_of(x, tanh);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    static const auto op = find_operator<decltype(gelu_backward_cpu)>("capstan::gelu_backward");
    return {op.call(gradients[0], ctx->get_saved_variables()[0], ctx->saved_data["tanh"].toBool()), at::Tensor()};
  }
  static at::Tensor again(torch::autograd::AutogradContext* ctx) {
    return value_of(ctx->get_saved_variables()[0], ctx->saved_data["tanh"].toBool());
  }
};

}  // namespace

const Again gelu_again = again_of<GeluFunction>();

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("gelu(Tensor x, bool tanh) -> Tensor");
  m.def("gelu_backward(Tensor gradient, Tensor x, bool tanh) -> Tensor");
  m.def("gelu_both_(Tensor(a!) gradient, Tensor x, bool tanh) -> Tensor");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("gelu", &gelu_cpu);
  m.impl("gelu_backward", &gelu_backward_cpu);
  m.impl("gelu_both_", &gelu_both_cpu);
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("gelu", [](const at::Tensor& x, bool) { return at::empty_like(x); });
  m.impl("gelu_backward", &gelu_backward_meta);
  m.impl("gelu_both_", &gelu_backward_meta);
}

at::Tensor gelu(const at::Tensor& x, bool tanh) { return GeluFunction::apply(x, tanh); }

}  // namespace capstan::ops
