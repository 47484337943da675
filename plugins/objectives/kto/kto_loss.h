#pragma once
#include <ATen/core/Tensor.h>

namespace kto {

struct Weights {
  double beta = 0.1;
  double desirable = 1;
  double undesirable = 1;
};

/// N answers, each [N]. log π is the sum of the log-probabilities of an answer's tokens.
struct Answers {
  at::Tensor ratio;   ///< log π less the reference's log π
  at::Tensor wanted;  ///< 1 where an answer is wanted, 0 where it is not
  at::Tensor real;    ///< 0 where there is no answer, which adds nothing
};

/// Sums over the answers (0-dim), in the dtype of `ratio`. Only the loss has a gradient. A reward is β ratio.
struct Outcome {
  at::Tensor loss;
  at::Tensor chosen_reward;    ///< of those that are wanted
  at::Tensor rejected_reward;  ///< of the others
};

/// Ethayarajh et al. 2024, "KTO: Model Alignment as Prospect Theoretic Optimization", equations 7 and 8: λ_w (1 - σ(β
/// (ratio - z))) for an answer that is wanted, λ_u (1 - σ(β (z - ratio))) for one that is not. `divergence` (0-dim) is
/// the mean log-ratio of answers to other prompts; z is it, or 0 where it is below.
Outcome kto_loss(const Weights& weights, const Answers& answers, const at::Tensor& divergence);

}  // namespace kto
