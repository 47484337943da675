#include "train/updates.h"

#include <ATen/ATen.h>

namespace capstan::train {

Updates::Updates(const setup::OptimizerOptions& options, c10::Device device)
    : clip_(options.clip), count_(at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

strategy::Update Updates::next(double lr, const at::Tensor& norm) {
  strategy::Update update;
  update.lr = lr;
  update.skip = at::isfinite(norm).logical_not().to(at::kFloat);
  update.grad_scale = clip_ > 0 ? ((norm + 1e-6) / clip_).clamp_min(1.0).to(at::kFloat) : at::ones_like(update.skip);
  count_.add_(1 - update.skip);
  update.count = count_;
  return update;
}

}  // namespace capstan::train
