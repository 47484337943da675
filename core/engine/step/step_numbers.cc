#include "step/step_numbers.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <cmath>
#include <iterator>

namespace capstan::step {
namespace {

// What comes first is one sum of all ranks' numbers; the update's own, zero until then, are the same on all of them.
enum NumberAt : std::int64_t { norm_at, loss_at, auxiliary_at, scale_at, skip_at, figures_at };

constexpr const char* label = "all-reduce gradient norm and loss";

}  // namespace

void StepNumbers::pack() {
  const auto none = at::zeros({2}, loss.options());
  auto losses = at::stack({loss, auxiliary});
  auto experts = expert_tokens.defined() ? expert_tokens.to(at::kDouble) : at::empty({0}, loss.options());
  if (!gives_losses) losses.zero_();
  if (!gives_experts) experts = at::zeros_like(experts);
  std::vector<at::Tensor> shares;
  for (auto& figure : figures) {
    shares.push_back(at::stack({figure.sum, figure.count}));
    figure.sum = figure.count = at::Tensor();
  }
  const auto counted = shares.empty() ? at::empty({0}, loss.options()) : at::stack(shares).flatten();
  experts_ = experts.sizes().vec();
  numbers_ = at::cat({norms.sum().view({1}), losses, none, counted, experts.flatten()});
  loss = auxiliary = expert_tokens = objective_figures = at::Tensor();
}

void StepNumbers::sum(const Session& session) {
  pack();
  auto& world = *session.world_device;
  if (session.local_axes().empty()) {
    world.all_reduce(numbers_, comm::ReduceOp::sum, label);
  } else {
    session.norm_group->all_reduce(numbers_.narrow(0, norm_at, 1), comm::ReduceOp::sum, label);
    world.all_reduce(numbers_.narrow(0, loss_at, numbers_.numel() - loss_at), comm::ReduceOp::sum, label);
  }
}

void StepNumbers::divide_norm_by(const at::Tensor& scale) { numbers_[norm_at].div_(scale.square()); }

at::Tensor StepNumbers::norm_and_loss() const { return numbers_.narrow(0, norm_at, 2); }

void StepNumbers::set_update(const at::Tensor& scale, const at::Tensor& skip) {
  numbers_[scale_at].copy_(scale);
  numbers_[skip_at].copy_(skip);
}

void StepNumbers::start_copy() {
  if (numbers_.is_cpu()) {
    host_ = numbers_;
  } else {
    host_ = at::empty(numbers_.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    host_.copy_(numbers_, /*non_blocking=*/true);
  }
}

void StepNumbers::read() { host_ = numbers_.cpu(); }

double StepNumbers::grad_norm() const { return std::sqrt(number(norm_at)); }

double StepNumbers::loss_sum() const { return number(loss_at); }

std::optional<double> StepNumbers::auxiliary_loss() const {
  return has_auxiliary ? std::optional(number(auxiliary_at)) : std::nullopt;
}

double StepNumbers::loss_scale() const { return number(scale_at); }

bool StepNumbers::skipped() const { return number(skip_at) != 0; }

monitor::Values StepNumbers::figure_values() const {
  monitor::Values values;
  std::int64_t place = figures_at;
  for (const auto& figure : figures) {
    const auto sum = number(place++);
    const auto count = number(place++);
    if (!figure.name.empty()) values.emplace_back(figure.name, count == 0 ? 0 : sum / count);
  }
  return values;
}

at::Tensor StepNumbers::tokens_by_expert() const {
  const auto first = figures_at + 2 * std::ssize(figures);
  return host_.narrow(0, first, host_.numel() - first).view(experts_);
}

void add_expert_load(monitor::Values& values, const at::Tensor& tokens) {
  if (tokens.numel() == 0) return;
  const auto experts = tokens.sum(0);
  for (std::int64_t e = 0; e < experts.numel(); ++e)
    values.emplace_back(cat("expert_tokens_", e), experts[e].item<double>());
  const auto mean = tokens.mean(1).clamp_min(1e-300);  // a step without tokens: 0 / 0 is 0
  values.emplace_back("expert_load_max", (tokens.amax(1) / mean).max().item<double>());
}

}  // namespace capstan::step
