#include "preference_loss.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <limits>

namespace dpo {
namespace {

// Its shape is known on the meta device, unlike that of ATen's log_sigmoid.
at::Tensor log_sigma(const at::Tensor& x) {
  constexpr double linear_from = 40;  // where log(1 + exp(x)) is x to all of float64's digits
  return at::softplus(-x, 1, linear_from).neg();
}

at::Tensor smoothed(const at::Tensor& x, double smoothing) {
  if (smoothing == 0) return log_sigma(x).neg();
  return (log_sigma(x) * (1 - smoothing) + log_sigma(-x) * smoothing).neg();
}

// log(p / (1 - p)) from log p. An answer of which each token is certain would have infinite odds.
at::Tensor log_odds(const at::Tensor& log_p) {
  const auto below = log_p.clamp_max(-double{std::numeric_limits<float>::epsilon()});
  return below - at::expm1(below).neg().log();
}

at::Tensor chosen(const at::Tensor& pairs) { return pairs.select(1, 0); }
at::Tensor margin(const at::Tensor& pairs) { return pairs.select(1, 0) - pairs.select(1, 1); }

}  // namespace

Outcome preference_loss(const Preference& preference, const Pairs& pairs) {
  CAPSTAN_ASSERT(pairs.policy.dim() == 2 && pairs.policy.size(1) == 2 && pairs.tokens.sizes() == pairs.policy.sizes());
  CAPSTAN_ASSERT(pairs.reference.defined() == preference.needs_reference());
  const auto of_whole = preference.needs_reference() ? pairs.policy - pairs.reference : pairs.policy;
  const auto of_token = of_whole / pairs.tokens.to(pairs.policy.scalar_type()).clamp_min(1);
  at::Tensor losses, rewards;
  switch (preference.loss) {
    case Loss::sigmoid:
      rewards = of_whole * preference.beta;
      losses = smoothed(margin(rewards), preference.label_smoothing);
      break;
    case Loss::ipo:
      rewards = of_whole * preference.beta;
      losses = (margin(preference.per_token ? of_token : of_whole) - 1 / (2 * preference.beta)).square();
      break;
    case Loss::orpo:
      rewards = of_token * preference.lambda;
      losses = (chosen(of_token) + log_sigma(margin(log_odds(of_token))) * preference.lambda).neg();
      break;
    case Loss::simpo:
      rewards = of_token * preference.beta;
      losses = smoothed(margin(rewards) - preference.gamma, preference.label_smoothing);
      break;
  }
  rewards = rewards.detach();
  auto correct = margin(rewards).gt(0);
  if (pairs.real.defined()) {
    losses = losses * pairs.real;
    rewards = rewards * pairs.real.unsqueeze(1);
    correct = correct.bitwise_and(pairs.real);
  }
  const auto sums = rewards.sum(0);
  return {losses.sum(), sums.select(0, 0), sums.select(0, 1), correct.sum().to(rewards.scalar_type())};
}

}  // namespace dpo
