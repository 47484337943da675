#pragma once
// Compares what autograd says with what the function does: every backward in the tree is checked with this.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

namespace capstan::testing {

using DifferentiableFunction = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// The loss whose gradient both sides take: a fixed, uneven weighting of all outputs, so that no error cancels.
inline at::Tensor weighted_sum(const at::Tensor& out) {
  const at::Tensor weights = at::arange(1, out.numel() + 1, out.options().dtype(at::kDouble)).mul(0.7).sin();
  return (out.reshape({-1}).to(at::kDouble) * weights).sum();
}

/// d loss / d inputs by central differences: (f(x + step) - f(x - step)) / (2 step), element by element.
/// `loss` sees the inputs by value of their storage, which is changed and restored around each call.
inline std::vector<at::Tensor> numeric_gradients(const std::function<double()>& loss,
                                                 const std::vector<at::Tensor>& inputs, double step = 1e-5) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& input : inputs) {
    TORCH_CHECK(input.scalar_type() == at::kDouble && input.is_contiguous(), "float64 and contiguous");
    at::Tensor gradient = at::zeros_like(input);
    for (std::int64_t i = 0; i < input.numel(); ++i) {
      double& x = input.data_ptr<double>()[i];
      const double kept = x;
      x = kept + step;
      const double above = loss();
      x = kept - step;
      const double below = loss();
      x = kept;
      gradient.data_ptr<double>()[i] = (above - below) / (2 * step);
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

/// max over inputs of max|autograd - numeric| / max(max|numeric|, 1e-3). Central differences in float64 with a step of
/// 1e-5 are good to about 1e-9 for functions of order 1: the truncation is step^2, the rounding 1e-16 / step.
inline double jacobian_error(const DifferentiableFunction& function, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().set_requires_grad(true));
  }
  const auto analytic = torch::autograd::grad({weighted_sum(function(leaves))}, leaves, {}, std::nullopt, false, true);
  std::vector<at::Tensor> plain;
  for (const at::Tensor& input : inputs) {
    plain.push_back(input.detach().clone());
  }
  const at::NoGradGuard no_grad;
  const auto numeric = numeric_gradients([&] { return weighted_sum(function(plain)).item<double>(); }, plain);
  double worst = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor mine = analytic[i].defined() ? analytic[i] : at::zeros_like(numeric[i]);
    const double scale = std::max(numeric[i].abs().max().item<double>(), 1e-3);
    worst = std::max(worst, (mine - numeric[i]).abs().max().item<double>() / scale);
  }
  return worst;
}

}  // namespace capstan::testing
