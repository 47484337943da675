#include "train/adamw.h"

#include <utility>

namespace capstan::train {
namespace {

struct Lists {
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> steps;
};

}  // namespace

AdamW::AdamW(setup::OptimizerOptions options, c10::Device device)
    : options_(std::move(options)), step_(at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

void AdamW::apply(std::vector<shard::Slice>& slices, double lr, const at::Tensor& norm) {
  Lists decayed;
  Lists plain;
  for (auto& slice : slices) {
    auto& lists = decays(*slice.weight) ? decayed : plain;
    lists.params.push_back(slice.master);
    lists.grads.push_back(slice.grad);
    lists.averages.push_back(slice.state[0]);
    lists.squares.push_back(slice.state[1]);
    lists.steps.push_back(step_);
  }
  const auto not_finite = at::isfinite(norm).logical_not().to(at::kFloat);
  std::optional<at::Tensor> scale;  // the kernel divides gradients by it
  if (options_.clip > 0) scale = ((norm + 1e-6) / options_.clip).clamp_min(1.0).to(at::kFloat);
  step_.add_(1 - not_finite);
  const auto update = [&](Lists& lists, double decay) {
    if (lists.params.empty()) return;
    at::_fused_adamw_(lists.params, lists.grads, lists.averages, lists.squares, {}, lists.steps, lr, options_.betas[0],
                      options_.betas[1], decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false, scale, not_finite);
  };
  update(decayed, options_.weight_decay);
  update(plain, 0.0);
}

}  // namespace capstan::train
