#include "step/step_metrics.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <cmath>
#include <utility>

namespace capstan::step {
namespace {

// What comes first is one sum of all ranks' numbers; the update's own, zero until then, are the same on all of them.
enum Number : std::int64_t { squared_norm, loss_sum, auxiliary, loss_scale, skipped, first_figure };

constexpr const char* label = "all-reduce gradient norm and loss";

}  // namespace

StepNumbers::StepNumbers(const StepSums& mine, Gives gives) {
  const auto none = at::zeros({2}, mine.loss.options());
  auto sums = at::stack({mine.loss, mine.auxiliary});
  auto experts =
      mine.expert_tokens.defined() ? mine.expert_tokens.to(at::kDouble) : at::empty({0}, mine.loss.options());
  if (!gives.losses) sums.zero_();
  if (!gives.experts) experts = at::zeros_like(experts);
  const auto figures = mine.figures.defined() ? mine.figures.flatten() : at::empty({0}, mine.loss.options());
  figures_ = figures.numel() / 2;
  experts_ = experts.sizes().vec();
  numbers_ = at::cat({mine.squared_norm.view({1}), sums, none, figures, experts.flatten()});
}

void StepNumbers::sum(const session::Session& session) {
  auto& world = *session.world_device;
  if (session.local_axes().empty()) {
    world.all_reduce(numbers_, comm::ReduceOp::sum, label);
  } else {
    session.norm_group->all_reduce(numbers_.narrow(0, squared_norm, 1), comm::ReduceOp::sum, label);
    world.all_reduce(numbers_.narrow(0, loss_sum, numbers_.numel() - loss_sum), comm::ReduceOp::sum, label);
  }
}

void StepNumbers::divide_norm_by(const at::Tensor& loss_scale) { numbers_[squared_norm].div_(loss_scale.square()); }

at::Tensor StepNumbers::norm_and_loss() const { return numbers_.narrow(0, squared_norm, 2); }

void StepNumbers::set_update(const at::Tensor& scale, const at::Tensor& skip) {
  numbers_[loss_scale].copy_(scale);
  numbers_[skipped].copy_(skip);
}

StepMetrics StepNumbers::read(const at::Tensor& host) const {
  const auto* numbers = host.const_data_ptr<double>();
  const auto first_expert = first_figure + 2 * figures_;
  std::vector<double> figures;
  for (std::int64_t i = first_figure; i < first_expert; i += 2)
    figures.push_back(numbers[i + 1] == 0 ? 0 : numbers[i] / numbers[i + 1]);
  return {std::sqrt(numbers[squared_norm]),
          numbers[loss_sum],
          numbers[auxiliary],
          numbers[loss_scale],
          numbers[skipped] != 0,
          std::move(figures),
          host.narrow(0, first_expert, host.numel() - first_expert).view(experts_)};
}

StepMetrics StepNumbers::read() const { return read(numbers_.cpu()); }

void add_expert_load(monitor::Values& values, const at::Tensor& tokens) {
  if (tokens.numel() == 0) return;
  const auto experts = tokens.sum(0);
  for (std::int64_t e = 0; e < experts.numel(); ++e)
    values.emplace_back(cat("expert_tokens_", e), experts[e].item<double>());
  const auto mean = tokens.mean(1).clamp_min(1e-300);  // a step without tokens: 0 / 0 is 0
  values.emplace_back("expert_load_max", (tokens.amax(1) / mean).max().item<double>());
}

}  // namespace capstan::step
