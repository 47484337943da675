#include "feed_forward.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

namespace fp8 {

using namespace capstan;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

using Ends = std::optional<at::Tensor>;

/// Carries both layers' through an autograd context.
struct BothHolder : torch::CustomClassHolder {
  explicit BothHolder(FeedForward layers) : both(std::move(layers)) {}
  FeedForward both;
};

at::Tensor times(const Multiplier& layer, const std::vector<Quantised>& operands, const Ends& ends,
                 const at::Tensor& like) {
  const auto dtype = like.scalar_type();
  return ends ? grouped_product(operands[0], operands[1], *ends, dtype, layer.fast)
              : layer.product_of(operands[0], operands[1], dtype, like.numel() / like.size(-1));
}

class FeedForwardFunction : public torch::autograd::Function<FeedForwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w_up, const at::Tensor& w_down,
                            const Ends& ends, const FeedForward& layers) {
    const at::AutoDispatchBelowADInplaceOrView guard;  // no view that autograd follows: the result may be written to
    const auto& [up, down] = layers;
    const auto of_up = up->with_weight({{x.reshape({-1, x.size(-1)})}}, w_up, false);
    const auto inner = times(*up, of_up, ends, x);
    auto of_down = down->with_weight({}, w_down, false);
    of_down.insert(of_down.begin(), down->swiglu(inner));
    auto shape = x.sizes().vec();
    shape.back() = w_down.size(-2);
    if (x.requires_grad()) {
      ctx->saved_data["layers"] = c10::IValue::make_capsule(c10::make_intrusive<BothHolder>(layers));
      ctx->saved_data["shape"] = x.sizes();
      ctx->save_for_backward({inner, w_up, w_down, ends.value_or(at::Tensor())});
    }
    return times(*down, of_down, ends, x).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& [up, down] =
        c10::static_intrusive_pointer_cast<BothHolder>(ctx->saved_data["layers"].toCapsule())->both;
    const auto saved = ctx->get_saved_variables();
    const auto& inner = saved[0];
    const Ends ends = saved[3].defined() ? Ends(saved[3]) : std::nullopt;
    const auto gradient = gradients[0].reshape({-1, gradients[0].size(-1)});
    const auto of_inner = times(*down, down->with_weight({{gradient, down->gradient}}, saved[2], true), ends, gradient);
    auto of_up = up->with_weight({}, saved[1], true);
    of_up.insert(of_up.begin(), up->swiglu_backward(of_inner, inner));
    variable_list result(5);
    result[0] = times(*up, of_up, ends, gradient).view(ctx->saved_data["shape"].toIntVector());
    return result;
  }
};

}  // namespace

bool FeedForward::takes(const Multiplier& up, const Multiplier& down) {
  return !up.weight->trainable() && !down.weight->trainable() && !up.group && !down.group;
}

at::Tensor FeedForward::multiply(const at::Tensor& x, const at::Tensor& w_up, const at::Tensor& w_down,
                                 const std::optional<at::Tensor>& ends) const {
  return FeedForwardFunction::apply(x, w_up, w_down, ends, *this);
}

}  // namespace fp8
