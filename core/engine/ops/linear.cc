#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/ops/linear.h>

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/again.h"
#include "ops/column_sums.h"
#include "ops/operator.h"
#include "ops/shared_input.h"
#include "ops/weight_gradients.h"

namespace capstan::ops {
namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

class LinearFunction : public Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    ctx->saved_data["shape"] = x.sizes();
    ctx->saved_data["has_bias"] = bias.has_value();
    note_sharing(*ctx, x);
    const InputForBackward input(*ctx, weight.requires_grad() ? x : at::Tensor());
    ctx->save_for_backward({input.saved(), x.requires_grad() ? weight : at::Tensor()});
    const at::AutoDispatchBelowADInplaceOrView guard;  // no view that autograd follows: the result may be written to
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    const at::Tensor rows = rows_of(x);
    return (bias ? at::addmm(*bias, rows, weight.t()) : at::mm(rows, weight.t())).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor gradient = rows_of(gradients[0]);
    variable_list result(3);
    if (ctx->needs_input_grad(0) && !defer_gradient(*ctx, gradient, saved[1]))
      result[0] = at::mm(gradient, saved[1]).view(ctx->saved_data["shape"].toIntVector());
    if (ctx->needs_input_grad(1)) {
      const at::Tensor in = rows_of(InputForBackward::of(*ctx, saved[0])).detach();
      result[1] = weight_gradient(1, [gradient, in] { return at::mm(gradient.t(), in); });
    }
    if (ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2)) result[2] = column_sums(gradient);
    return result;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  CAPSTAN_ASSERT(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1));
  return LinearFunction::apply(x, weight, bias);
}

}  // namespace capstan::ops
