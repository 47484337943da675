#include <capstan/base/error.h>
#include <capstan/ops/swiglu.h>

#include "ops/again.h"
#include "ops/operator.h"

namespace capstan::ops {
namespace {

/// Gate and up in the dtype of the products.
struct Halves {
  at::Tensor gate, up;
  explicit Halves(const at::Tensor& x) {
    const auto type = sum_type(x);
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

at::Tensor swiglu_meta(const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() /= 2;
  return at::empty(shape, x.options());
}

at::Tensor swiglu_backward_meta(const at::Tensor&, const at::Tensor& x) { return room_for(x); }

at::Tensor product_of(const at::Tensor& x) {
  static const auto op = find_operator<decltype(swiglu_cpu)>("capstan::swiglu");
  return op.call(x);
}

class SwigluFunction : public Function<SwigluFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return product_of(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<decltype(swiglu_backward_cpu)>("capstan::swiglu_backward");
    return {op.call(gradients[0], ctx->get_saved_variables()[0])};
  }
  static at::Tensor again(AutogradContext* ctx) { return product_of(ctx->get_saved_variables()[0]); }
};

}  // namespace

const Again swiglu_again = again_of<SwigluFunction>();

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "swiglu(Tensor x) -> Tensor", &swiglu_cpu, &swiglu_meta);
  define(m, "swiglu_backward(Tensor gradient, Tensor x) -> Tensor", &swiglu_backward_cpu, &swiglu_backward_meta);
  define(m, "swiglu_both_(Tensor(a!) gradient, Tensor x) -> Tensor", &swiglu_both_cpu, &swiglu_backward_meta);
}

at::Tensor swiglu(const at::Tensor& x) {
  CAPSTAN_ASSERT(x.dim() >= 1 && x.size(-1) % 2 == 0);
  return SwigluFunction::apply(x);
}

}  // namespace capstan::ops
