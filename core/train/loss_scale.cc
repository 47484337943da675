#include "train/loss_scale.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace capstan::train {

LossScale::LossScale(const setup::LossScaling& rule, c10::Device device) : rule_(rule) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(device);
  scale_ = at::full({}, rule.on ? rule.initial : 1.0, doubles);
  good_steps_ = at::zeros({}, doubles);
}

at::Tensor LossScale::seed(double divisor, const at::TensorOptions& options) const {
  // In float64 first: the product with a power of two is then rounded as 1 / divisor alone would be.
  return rule_.on ? (scale_ * (1.0 / divisor)).to(options) : at::full({}, 1.0 / divisor, options);
}

void LossScale::follow(const at::Tensor& finite, const at::Tensor& overflow) {
  if (!rule_.dynamic) return;
  const auto good = (good_steps_ + finite.to(at::kDouble)).masked_fill(overflow, 0.0);
  const auto enough = good.ge(rule_.window);
  const auto grown = at::where(enough, scale_ * 2.0, scale_);
  scale_.copy_(at::where(overflow, (scale_ * 0.5).clamp_min(rule_.min), grown));
  good_steps_.copy_(good.masked_fill(enough, 0.0));
}

LossScale::State LossScale::save() const {
  return {scale_.item<double>(), good_steps_.to(at::kLong).item<std::int64_t>()};
}

void LossScale::restore(const State& state) {
  scale_.fill_(std::max(state.scale, rule_.min));
  good_steps_.fill_(state.good_steps);
}

}  // namespace capstan::train
