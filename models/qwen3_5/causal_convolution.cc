#include "causal_convolution.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "operators.h"
#include "tensors.h"

namespace qwen3_5 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The weight of the token that is `back` before.
at::Tensor tap(const at::Tensor& w, std::int64_t back) { return w.select(-1, w.size(-1) - 1 - back).squeeze(-1); }

// x of the token that is `back` before each one, 0 where the sequence has none.
at::Tensor earlier(const at::Tensor& x, std::int64_t back, const at::Tensor& positions) {
  if (back == 0) return x;
  const auto length = x.size(1), moved = std::min(back, length);
  const auto none = at::zeros({x.size(0), moved, x.size(2)}, x.options());
  const auto shifted = at::cat({none, x.narrow(1, 0, length - moved)}, 1);
  return positions.defined() ? shifted * positions.ge(back).unsqueeze(-1) : shifted;
}

// The other way: what each token is given by the one that is `back` after it.
at::Tensor later(const at::Tensor& x, std::int64_t back, const at::Tensor& positions) {
  if (back == 0) return x;
  const auto length = x.size(1), moved = std::min(back, length);
  const auto none = at::zeros({x.size(0), moved, x.size(2)}, x.options());
  const auto given = positions.defined() ? x * positions.ge(back).unsqueeze(-1) : x;
  return at::cat({given.narrow(1, moved, length - moved), none}, 1);
}

at::Tensor sums_of(const at::Tensor& x, const at::Tensor& w, const at::Tensor& positions) {
  auto sum = x * tap(w, 0);
  for (std::int64_t back = 1; back < w.size(-1); ++back) sum.add_(earlier(x, back, positions) * tap(w, back));
  return sum;
}

// Operators of GPUs' kernels, which have SiLU in them.
at::Tensor convolved_there(const at::Tensor& x, const at::Tensor& w, const Maybe& positions) {
  static const auto op = find_operator<Convolution>("capstan::silu_convolution");
  return op.call(x, w, positions);
}

bool has_convolution(const at::Tensor& x, const at::Tensor& w) {
  return is_for_kernels(x) && w.size(-1) == 4 && w.scalar_type() == x.scalar_type();
}

// Weights that are not trained get no gradient.
variable_list convolved_back(const at::Tensor& gradient, const variable_list& saved, bool of_w) {
  static const auto op = find_operator<ConvolutionBack>("capstan::silu_convolution_back");
  const auto [of_x, of_weights] = op.call(gradient, saved[0], saved[1], maybe(saved[2]), of_w);
  return {of_x, of_w ? of_weights : at::Tensor(), at::Tensor()};
}

class ConvolutionFunction : public Function<ConvolutionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w,
                            const Maybe& maybe_positions) {
    const auto positions = maybe_positions.value_or(at::Tensor());
    ctx->save_for_backward({x, w, positions});
    if (has_convolution(x, w)) return convolved_there(x, w, maybe_positions);
    const auto type = sum_type(x);
    return at::silu(sums_of(x.to(type), w.to(type), positions)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const bool of_weights = ctx->needs_input_grad(1);
    if (has_convolution(saved[0], saved[1])) return convolved_back(gradients[0], saved, of_weights);
    const auto type = sum_type(saved[0]);
    const auto x = saved[0].to(type), w = saved[1].to(type);
    const auto& positions = saved[2];
    const auto of_sum = at::silu_backward(gradients[0].to(type), sums_of(x, w, positions));
    auto of_x = of_sum * tap(w, 0);
    const auto of_w = of_weights ? at::empty_like(w) : at::Tensor();
    for (std::int64_t back = 0; back < w.size(-1); ++back) {
      if (back > 0) of_x.add_(later(of_sum * tap(w, back), back, positions));
      if (of_weights) tap(of_w, back).copy_((of_sum * earlier(x, back, positions)).sum(at::IntArrayRef{0, 1}));
    }
    return {of_x.to(saved[0].scalar_type()), of_weights ? of_w.to(saved[1].scalar_type()) : of_w, at::Tensor()};
  }
};

}  // namespace

at::Tensor causal_convolution(const at::Tensor& x, const at::Tensor& w, const at::Tensor& positions) {
  return ConvolutionFunction::apply(x, w, maybe(positions));
}

at::Tensor convolved_last(const at::Tensor& window, const at::Tensor& w) {
  const auto type = sum_type(window);
  const auto taps = w.squeeze(1).transpose(0, 1).to(type);
  return at::silu((window.to(type) * taps).sum(1, /*keepdim=*/true)).to(window.scalar_type());
}

}  // namespace qwen3_5
