#include "kto_loss.h"

#include <ATen/ATen.h>

namespace kto {

Outcome kto_loss(const Weights& weights, const Answers& answers, const at::Tensor& divergence) {
  const auto& [ratio, wanted, real] = answers;
  const auto chosen = wanted.to(ratio.scalar_type()) * real;
  const auto rejected = real - chosen;
  const auto gain = (ratio - divergence.clamp_min(0)) * (chosen - rejected) * weights.beta;
  const auto losses = gain.neg().sigmoid() * (chosen * weights.desirable + rejected * weights.undesirable);
  const auto rewards = ratio.detach() * weights.beta;
  return {losses.sum(), (rewards * chosen).sum(), (rewards * rejected).sum()};
}

}  // namespace kto
