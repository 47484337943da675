#include <capstan/base/error.h>
#include <capstan/ops/swiglu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/again.h"
#include "ops/operators.h"

namespace capstan::ops {
namespace {

/// Gate and up in the dtype of the products.
struct Halves {
  at::Tensor gate, up;
  explicit Halves(const at::Tensor& x) {
    const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto parts = x.chunk(2, -1);
    gate = parts[0].to(type);
    up = parts[1].to(type);
  }
};

at::Tensor swiglu_cpu(const at::Tensor& x) {
  const Halves in(x);
  return (in.gate * in.gate.sigmoid() * in.up).to(x.scalar_type());
}

// d silu(a) / da = s (1 + a (1 - s)) with s = sigmoid(a).
at::Tensor swiglu_backward_cpu(const at::Tensor& gradient, const at::Tensor& x) {
  const Halves in(x);
  const at::Tensor g = gradient.to(in.gate.scalar_type()), s = in.gate.sigmoid();
  return at::cat({g * in.up * s * (1 + in.gate * (1 - s)), g * in.gate * s}, -1).to(x.scalar_type());
}

at::Tensor swiglu_both_cpu(const at::Tensor& gradient, const at::Tensor& x) {
  at::Tensor of_x = swiglu_backward_cpu(gradient, x);
  gradient.copy_(swiglu_cpu(x));
  return of_x;
}

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return product(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("capstan::swiglu_backward", "").typed<SwigluBackward>();
    return {op.call(gradients[0], ctx->get_saved_variables()[0])};
  }
  static at::Tensor again(torch::autograd::AutogradContext* ctx) { return product(ctx->get_saved_variables()[0]); }

 private:
  static at::Tensor product(const at::Tensor& x) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("capstan::swiglu", "").typed<Swiglu>();
    return op.call(x);
  }
};

}  // namespace

const Again swiglu_again = again_of<SwigluFunction>();

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("swiglu", &swiglu_cpu);
  m.impl("swiglu_backward", &swiglu_backward_cpu);
  m.impl("swiglu_both_", &swiglu_both_cpu);
}

at::Tensor swiglu(const at::Tensor& x) {
  CAPSTAN_ASSERT(x.dim() >= 1 && x.size(-1) % 2 == 0);
  return SwigluFunction::apply(x);
}

}  // namespace capstan::ops
