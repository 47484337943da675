#include "low_rank.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lora {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// What autograd does not follow of each adapter.
struct Places {
  std::vector<double> scales;
  std::vector<std::int64_t> begins;
};

at::Tensor rows_of(const at::Tensor& y) { return y.reshape({-1, y.size(-1)}); }

// scale · a b in new memory, or in a part of some: with a factor of zero its numbers are not read.
at::Tensor multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double scale) {
  return out.addmm_(a, b, 0, scale);
}

class LowRankFunction : public torch::autograd::Function<LowRankFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, const at::Tensor& inner, at::TensorList ups,
                            const Places& places) {
    ctx->mark_dirty({y});
    variable_list saved{inner};
    saved.insert(saved.end(), ups.begin(), ups.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["scales"] = places.scales;
    ctx->saved_data["begins"] = places.begins;
    const at::Tensor rows = rows_of(y);
    std::int64_t column = 0;
    for (std::size_t i = 0; i < ups.size(); ++i) {
      const at::Tensor& up = ups[i];
      rows.narrow(1, places.begins[i], up.size(0))
          .addmm_(inner.narrow(1, column, up.size(1)), up.t(), 1, places.scales[i]);
      column += up.size(1);
    }
    return y;
  }

  // Each adapter's part of the gradient of inner goes into its columns, since one product makes the first matrices'
  // gradients, and one the input's, of all of it.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto scales = ctx->saved_data["scales"].toDoubleVector();
    const auto begins = ctx->saved_data["begins"].toIntVector();
    const at::Tensor &inner = saved[0], gradient = rows_of(gradients[0]);
    variable_list result(saved.size() + 2);
    result[0] = gradients[0];
    if (ctx->needs_input_grad(1)) result[1] = at::empty(inner.sizes(), inner.options());
    std::int64_t column = 0;
    for (std::size_t i = 0; i < scales.size(); ++i) {
      const at::Tensor& up = saved[i + 1];
      const auto rank = up.size(1);
      const at::Tensor own = gradient.narrow(1, begins[i], up.size(0));
      if (ctx->needs_input_grad(1)) multiply_into(result[1].narrow(1, column, rank), own, up, scales[i]);
      if (ctx->needs_input_grad(i + 2)) {
        result[i + 2] =
            multiply_into(at::empty(up.sizes(), up.options()), own.t(), inner.narrow(1, column, rank), scales[i]);
      }
      column += rank;
    }
    return result;
  }
};

}  // namespace

at::Tensor inner_of(const at::Tensor& x, const std::vector<at::Tensor>& downs) {
  const at::Tensor down = downs.size() == 1 ? downs.front() : at::cat(downs);
  return (x.is_cpu() ? at::linear(x, down) : capstan::ops::linear(x, down, {})).flatten(0, -2);
}

at::Tensor add_low_rank_(const at::Tensor& y, const at::Tensor& inner, const std::vector<LowRank>& adapters) {
  CAPSTAN_ASSERT(y.is_contiguous() && inner.dim() == 2 && inner.size(0) * y.size(-1) == y.numel());
  std::vector<at::Tensor> ups;
  Places places;
  std::int64_t ranks = 0;
  for (const auto& [up, scale, begin] : adapters) {
    CAPSTAN_ASSERT(up.dim() == 2 && begin >= 0 && begin + up.size(0) <= y.size(-1));
    ups.push_back(up);
    places.scales.push_back(scale);
    places.begins.push_back(begin);
    ranks += up.size(1);
  }
  CAPSTAN_ASSERT(inner.size(1) == ranks);
  return LowRankFunction::apply(y, inner, at::TensorList(ups), places);
}

}  // namespace lora
