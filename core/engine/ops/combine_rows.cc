#include "ops/combine_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor>;

// The plain reference of the GPU's kernels.
at::Tensor combine_rows_cpu(const at::Tensor& rows, const at::Tensor& place, const Maybe& weights,
                            std::int64_t copies) {
  const at::Tensor each = rows.index_select(0, place).view({-1, copies, rows.size(1)}).to(sum_type(rows));
  return (weights ? each * weights->unsqueeze(-1) : each).sum(1).to(rows.scalar_type());
}

Gradients combine_rows_backward_cpu(const at::Tensor& gradient, const at::Tensor& rows, const at::Tensor& order,
                                    const at::Tensor& weights) {
  const auto copies = weights.size(1);
  const auto type = sum_type(rows);
  const at::Tensor each = gradient.index_select(0, order.floor_divide(copies)).to(type);
  const at::Tensor of_rows = each * weights.flatten().index_select(0, order).unsqueeze(1);
  const at::Tensor dots = (each * rows).sum(1);
  at::Tensor of_weights = at::empty({weights.numel()}, weights.options());
  of_weights.index_copy_(0, order, dots.to(weights.scalar_type()));
  return {of_rows.to(rows.scalar_type()), of_weights.view(weights.sizes())};
}

at::Tensor combine_rows_meta(const at::Tensor& rows, const at::Tensor& place, const Maybe&, std::int64_t copies) {
  return at::empty({place.size(0) / copies, rows.size(1)}, rows.options());
}

Gradients combine_rows_backward_meta(const at::Tensor&, const at::Tensor& rows, const at::Tensor&,
                                     const at::Tensor& weights) {
  return {room_for(rows), room_for(weights)};
}

at::Tensor combined(const at::Tensor& rows, const at::Tensor& place, const Maybe& weights, std::int64_t copies) {
  static const auto op = find_operator<decltype(combine_rows_cpu)>("capstan::combine_rows");
  return op.call(rows, place, weights, copies);
}

class CombineRowsFunction : public Function<CombineRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const at::Tensor& place,
                            const at::Tensor& order, const at::Tensor& weights) {
    ctx->save_for_backward({rows, order, weights});
    return combined(rows, place, weights, weights.size(1));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    static const auto op = find_operator<decltype(combine_rows_backward_cpu)>("capstan::combine_rows_backward");
    const auto [of_rows, of_weights] = op.call(gradients[0].contiguous(), saved[0], saved[1], saved[2]);
    return {of_rows, {}, {}, of_weights};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "combine_rows(Tensor rows, Tensor place, Tensor? weights, int copies) -> Tensor", &combine_rows_cpu,
         &combine_rows_meta);
  define(m, "combine_rows_backward(Tensor gradient, Tensor rows, Tensor order, Tensor weights) -> (Tensor, Tensor)",
         &combine_rows_backward_cpu, &combine_rows_backward_meta);
}

at::Tensor combine_rows(const at::Tensor& rows, const CopiesAt& at, const at::Tensor& weights) {
  CAPSTAN_ASSERT(rows.dim() == 2 && weights.dim() == 2 && weights.numel() == rows.size(0));
  CAPSTAN_ASSERT(at.place.numel() == rows.size(0) && at.order.numel() == rows.size(0));
  CAPSTAN_ASSERT(rows.scalar_type() == weights.scalar_type());
  return CombineRowsFunction::apply(rows.contiguous(), at.place.contiguous(), at.order.contiguous(),
                                    weights.contiguous());
}

at::Tensor sum_copies(const at::Tensor& rows, const at::Tensor& place, std::int64_t copies) {
  CAPSTAN_ASSERT(rows.dim() == 2 && copies >= 1 && place.numel() == rows.size(0));
  const at::NoGradGuard no_grad;
  return combined(rows.contiguous(), place.contiguous(), {}, copies);
}

}  // namespace capstan::ops
