#include "clamped_swiglu.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <torch/csrc/autograd/custom_function.h>

#include "operators.h"

namespace gpt_oss {

namespace ops = capstan::ops;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

Maybe maybe(const at::Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

class ClampedSwiglu : public torch::autograd::Function<ClampedSwiglu> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Maybe& bias, const Maybe& group,
                            double limit, double slope) {
    ctx->save_for_backward({x, bias.value_or(at::Tensor()), group.value_or(at::Tensor())});
    ctx->saved_data["limit"] = limit;
    ctx->saved_data["slope"] = slope;
    static const auto op = find_operator<Forward>("capstan::clamped_swiglu");
    return op.call(x, bias, group, limit, slope);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<Backward>("capstan::clamped_swiglu_backward");
    const auto saved = ctx->get_saved_variables();
    const auto &bias = saved[1], &group = saved[2];
    const auto of_x = op.call(gradients[0].contiguous(), saved[0], maybe(bias), maybe(group),
                              ctx->saved_data["limit"].toDouble(), ctx->saved_data["slope"].toDouble());
    variable_list out(5);
    if (bias.defined() && ctx->needs_input_grad(1)) out[1] = ops::group_sums(of_x, group, bias.size(0));
    out[0] = of_x;
    return out;
  }
};

}  // namespace

at::Tensor clamped_swiglu(const at::Tensor& x, const ops::GroupBiases& biases, const SwigluLimits& limits) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % 2 == 0);
  const auto &bias = biases.bias, &group = biases.group;
  if (bias.defined()) {
    CAPSTAN_ASSERT(bias.dim() == 2 && bias.size(1) == x.size(1) && bias.is_contiguous());
    CAPSTAN_ASSERT(bias.scalar_type() == x.scalar_type() && group.sizes() == at::IntArrayRef({x.size(0)}));
  }
  return ClampedSwiglu::apply(x, maybe(bias), maybe(group), limits.limit, limits.slope);
}

}  // namespace gpt_oss
