#pragma once
#include <capstan/nn/batch.h>
#include <capstan/strategy/unit_runner.h>

#include <cstdint>

#include "train/loss_scale.h"

namespace capstan::train {

/// Backward from what a micro-step is trained on: its loss sum divided by the step's target tokens, and its auxiliary
/// losses (Hidden::sums after the head), of which each rank has its share, divided by the step's micro-steps. `hidden`
/// is what the runner's forward returned. Gradients come multiplied by the loss scale.
void backward_from(strategy::UnitRunner& runner, const nn::Hidden& hidden, double target_tokens,
                   std::int64_t micro_steps, const LossScale& scale);

}  // namespace capstan::train
