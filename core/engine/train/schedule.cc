#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace capstan::train {

double learning_rate(const setup::OptimizerOptions& options, std::int64_t step, std::int64_t steps) {
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(options.warmup_steps);
  if (step < options.warmup_steps) {
    return options.warmup_from_zero ? options.lr * s / warmup : options.lr * (s + 1) / (warmup + 1);
  }
  const double span = std::max(1.0, static_cast<double>(steps) - warmup);
  const double t = std::min(1.0, (s - warmup) / span);
  if (options.schedule == "cosine") {
    return options.min_lr + (options.lr - options.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * t));
  }
  if (options.schedule == "linear") return options.lr + (options.min_lr - options.lr) * t;
  return options.lr;
}

}  // namespace capstan::train
