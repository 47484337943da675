#include "ops/activated_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/base/error.h>

#include "ops/column_sums.h"
#include "ops/operator.h"
#include "ops/weight_gradients.h"

namespace capstan::ops {
namespace {

at::Tensor matrix_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

class ActivatedLinearFunction : public Function<ActivatedLinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, std::int64_t activation) {
    ctx->save_for_backward({x, x.requires_grad() ? weight : at::Tensor()});
    ctx->saved_data["activation"] = activation;
    ctx->saved_data["has_bias"] = bias.has_value();
    const at::AutoDispatchBelowADInplaceOrView guard;  // no view that autograd follows: the result may be written to
    const at::Tensor in = capstan::ops::activation(x, static_cast<Activating>(activation)), rows = matrix_of(in);
    auto shape = in.sizes().vec();
    shape.back() = weight.size(0);
    return (bias ? at::addmm(*bias, rows, weight.t()) : at::mm(rows, weight.t())).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto by = static_cast<Activating>(ctx->saved_data["activation"].toInt());
    const at::Tensor gradient = matrix_of(gradients[0]), &x = saved[0];
    const bool of_x = ctx->needs_input_grad(0), of_weight = ctx->needs_input_grad(1);
    variable_list result(4);
    at::Tensor in;
    if (of_x) {
      auto shape = x.sizes().vec();
      shape.back() = saved[1].size(1);
      in = at::mm(gradient, saved[1]).view(shape);
      result[0] = of_weight ? activation_both_(in, x, by) : activation_backward(in, x, by);
    } else if (of_weight) {
      in = activation(x, by);
    }
    if (of_weight) result[1] = weight_gradient(1, [gradient, in] { return at::mm(gradient.t(), matrix_of(in)); });
    if (ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2)) result[2] = column_sums(gradient);
    return result;
  }
};

}  // namespace

at::Tensor activated_linear(const at::Tensor& x, Activating activation, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
  const auto inputs = is_gated(activation) ? 2 * weight.size(1) : weight.size(1);
  CAPSTAN_ASSERT(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == inputs);
  return ActivatedLinearFunction::apply(x, weight, bias, static_cast<std::int64_t>(activation));
}

}  // namespace capstan::ops
