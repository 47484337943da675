#pragma once
#include <ATen/core/Tensor.h>

namespace dpo {

/// Which loss pairs are trained with. w is a pair's chosen answer, l its rejected one; log π is the sum of the
/// log-probabilities of an answer's tokens, log π/|y| their mean; r is log π less the reference's log π.
enum class Loss {
  /// Rafailov et al. 2023, "Direct Preference Optimization": -log σ(β (r_w - r_l)). With a label smoothing ε it is
  /// -(1-ε) log σ(…) - ε log σ(-…) (Mitchell 2023, "A note on DPO with noisy preferences").
  sigmoid,
  /// Azar et al. 2023, "A General Theoretical Paradigm to Understand Learning from Human Preferences", equation 17:
  /// (r_w - r_l - 1/(2β))², where r is by default divided by the answer's tokens, which keeps β's meaning at any
  /// length.
  ipo,
  /// Hong et al. 2024, "ORPO": -log π_w/|w| - λ log σ(log odds_w - log odds_l), where odds = p/(1-p) and
  /// log p = log π/|y|. The first term is the mean over the chosen answer's tokens, so a pair counts as one whatever
  /// its
  /// length.
  orpo,
  /// Meng et al. 2024, "SimPO": -log σ(β log π_w/|w| - β log π_l/|l| - γ), with label smoothing as in sigmoid.
  simpo,
};

struct Preference {
  Loss loss = Loss::sigmoid;
  double beta = 0.1;           ///< not in orpo
  double label_smoothing = 0;  ///< in sigmoid and simpo
  double gamma = 0.5;          ///< in simpo
  double lambda = 0.1;         ///< in orpo
  bool per_token = true;       ///< in ipo: r is divided by the answer's tokens
  bool needs_reference() const { return loss == Loss::sigmoid || loss == Loss::ipo; }
};

/// Answers of P pairs, each [P, 2]: the chosen one, then the rejected one.
struct Pairs {
  at::Tensor policy;     ///< sums of the log-probabilities of the answers' tokens
  at::Tensor reference;  ///< the same from the reference model, without gradient; undefined unless the loss needs it
  at::Tensor tokens;     ///< the numbers of tokens that these are sums of
  at::Tensor real = {};  ///< [P] bool: false where there is no pair, which adds nothing. Undefined: all are
};

/// Sums over the pairs (0-dim), in the dtype of `policy`. Only the loss has a gradient. A reward is β r, in simpo and
/// orpo β or λ times the mean log-probability.
struct Outcome {
  at::Tensor loss;
  at::Tensor chosen_reward;
  at::Tensor rejected_reward;
  at::Tensor correct;  ///< in how many pairs the chosen answer's reward is the larger one
};

Outcome preference_loss(const Preference& preference, const Pairs& pairs);

}  // namespace dpo
