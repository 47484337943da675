#include "train/objective.h"

namespace capstan::train {

void backward_from(strategy::UnitRunner& runner, const nn::Hidden& hidden, double target_tokens,
                   std::int64_t micro_steps, const LossScale& scale) {
  const auto& loss = hidden.states;
  if (hidden.sums.empty()) return runner.backward(loss, scale.seed(target_tokens, loss.options()));
  auto objective = loss / target_tokens;
  for (const auto& auxiliary : hidden.sums) objective = objective + auxiliary / micro_steps;
  runner.backward(objective, scale.seed(1.0, objective.options()));
}

}  // namespace capstan::train
