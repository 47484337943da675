#include "step/updates.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace capstan::step {

LossScale::LossScale(const setup::LossScaling& rule, c10::Device device) : rule_(rule) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(device);
  scale_ = at::full({}, rule.on ? rule.initial : 1.0, doubles);
  good_steps_ = at::zeros({}, doubles);
}

at::Tensor LossScale::seed(double divisor, const at::TensorOptions& options) const {
  // In float64 first: the product with a power of two is then rounded as 1 / divisor by itself would be.
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

Updates::Updates(const setup::OptimizerOptions& options, const setup::LossScaling& scaling, c10::Device device)
    : clip_(options.clip),
      count_(at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device))),
      loss_scale_(scaling, device) {}

optimizer::Update Updates::next(const at::Tensor& numbers) {
  const auto norm = numbers[0].sqrt();
  const auto factor = clip_ > 0 ? ((norm + 1e-6) / clip_).clamp_min(1.0) : at::ones_like(norm);
  optimizer::Update update;
  update.grad_scale = (factor * loss_scale_.value()).to(at::kFloat);
  const auto loss_is_finite = at::isfinite(numbers[1]);
  // The divisor too: a huge scale times a huge norm is no float32, and gradients divided by infinity would be lost.
  const auto finite = at::isfinite(norm).logical_and(loss_is_finite).logical_and(at::isfinite(update.grad_scale));
  update.skip = finite.logical_not().to(at::kFloat);
  count_.add_(1 - update.skip);
  update.count = count_;
  loss_scale_.follow(finite, finite.logical_not().logical_and(loss_is_finite));
  return update;
}

std::string Updates::save() const {
  Json json{{"updates", static_cast<std::int64_t>(count_.item<double>())}};
  if (loss_scale_.dynamic()) {
    const auto state = loss_scale_.save();
    json["loss_scale"] = {{"scale", state.scale}, {"good_steps", state.good_steps}};
  }
  return json.dump();
}

void Updates::restore(const std::string& json) {
  try {
    const auto state = Json::parse(json);
    const auto updates = state.at("updates").get<std::int64_t>();
    if (loss_scale_.dynamic() && state.contains("loss_scale")) {
      const auto& scale = state.at("loss_scale");
      loss_scale_.restore({scale.at("scale").get<double>(), scale.at("good_steps").get<std::int64_t>()});
    }
    count_.fill_(updates);
  } catch (const JsonError&) {
    throw Error("the state of the updates is not what Capstan writes", "use another checkpoint");
  }
}

}  // namespace capstan::step
