#include "setup/stopping.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <cmath>
#include <optional>

namespace capstan::setup {

std::string reason_to_stop(const TrainOptions& train, const std::string& metric, bool lowest_is_best,
                           const std::vector<double>& values) {
  if (train.stop_after_evals == 0) return {};
  std::optional<double> best;
  std::int64_t in_vain = 0;
  for (const auto value : values) {
    const auto gain = best ? (lowest_is_best ? *best - value : value - *best) : 0;
    const bool is_better = std::isfinite(value) && (!best || gain > train.stop_min_delta);
    if (is_better) best = value;
    in_vain = is_better ? 0 : in_vain + 1;
  }
  if (in_vain < train.stop_after_evals) return {};
  const auto evaluations = counted(in_vain, "evaluation");
  if (!best) return cat(metric, " was not finite in ", evaluations);
  return cat(metric, " was no better than ", number_text(*best), " in ", evaluations, " (train.stop_after_evals)");
}

void check_stopping(const config::Options<TrainOptions>& train, std::int64_t steps, std::int64_t steps_per_epoch,
                    Diagnostics& diagnostics) {
  if (train->stop_after_evals == 0) return;
  const auto where = train.where(&TrainOptions::stop_after_evals);
  if (steps_per_epoch == 0) {
    diagnostics.add(where, "train.stop_after_evals has no effect: there is no evaluation data",
                    "name an evaluation file in [data]");
    return;
  }
  const auto every = train->eval_every > 0 ? train->eval_every : steps_per_epoch;
  const auto evaluations = (steps - 1) / every;
  if (evaluations > train->stop_after_evals) return;
  diagnostics.add(
      where,
      cat("train.stop_after_evals = ", train->stop_after_evals, " has no effect: a run of ", counted(steps, "step"),
          " with an evaluation every ", every, " has ", evaluations, " of them before its end, the best one included"),
      "set train.eval_every to evaluate more often, or train.stop_after_evals to less");
}

}  // namespace capstan::setup
