#include "low_rank.h"

#include <ATen/ops/mm.h>
#include <capstan/base/error.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lora {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

at::Tensor scaled_by(const at::Tensor& x, double scale) { return scale == 1 ? x : x.mul_(scale); }

at::Tensor part_of_rows(const at::Tensor& y, std::int64_t begin, std::int64_t columns) {
  return y.reshape({-1, y.size(-1)}).narrow(1, begin, columns);
}

class LowRankFunction : public torch::autograd::Function<LowRankFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, const at::Tensor& inner, const at::Tensor& up,
                            double scale, std::int64_t begin) {
    ctx->mark_dirty({y});
    ctx->save_for_backward({inner, up});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["begin"] = begin;
    part_of_rows(y, begin, up.size(0)).addmm_(inner, up.t(), 1, scale);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &inner = saved[0], &up = saved[1];
    const auto scale = ctx->saved_data["scale"].toDouble();
    const at::Tensor gradient = part_of_rows(gradients[0], ctx->saved_data["begin"].toInt(), up.size(0));
    variable_list result(5);
    result[0] = gradients[0];
    if (ctx->needs_input_grad(1)) result[1] = scaled_by(at::mm(gradient, up), scale);
    if (ctx->needs_input_grad(2)) result[2] = scaled_by(at::mm(gradient.t(), inner), scale);
    return result;
  }
};

}  // namespace

at::Tensor add_low_rank_(const at::Tensor& y, const LowRank& added) {
  const auto columns = added.up.size(0);
  CAPSTAN_ASSERT(y.is_contiguous() && added.inner.dim() == 2 && added.up.dim() == 2);
  CAPSTAN_ASSERT(added.begin >= 0 && added.begin + columns <= y.size(-1));
  CAPSTAN_ASSERT(added.inner.size(0) * y.size(-1) == y.numel() && added.inner.size(1) == added.up.size(1));
  return LowRankFunction::apply(y, added.inner, added.up, added.scale, added.begin);
}

}  // namespace lora
