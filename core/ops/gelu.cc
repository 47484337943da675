#include <ATen/ATen.h>
#include <capstan/ops/gelu.h>

#include "ops/again.h"

namespace capstan::ops {
namespace {

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, bool tanh) {
    ctx->save_for_backward({x});
    ctx->saved_data["tanh"] = tanh;
    return at::gelu(x, form(tanh));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const auto x = ctx->get_saved_variables()[0];
    return {at::gelu_backward(gradients[0], x, form(ctx->saved_data["tanh"].toBool())), at::Tensor()};
  }
  static at::Tensor again(torch::autograd::AutogradContext* ctx) {
    return at::gelu(ctx->get_saved_variables()[0], form(ctx->saved_data["tanh"].toBool()));
  }

 private:
  static c10::string_view form(bool tanh) { return tanh ? "tanh" : "none"; }
};

}  // namespace

const Again gelu_again = again_of<GeluFunction>();

at::Tensor gelu(const at::Tensor& x, bool tanh) { return GeluFunction::apply(x, tanh); }

}  // namespace capstan::ops
