#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a run counts from its first step on, whatever the number of times that it was stopped and went on.
struct Statistics {
  double first_loss = 0;
  double last_loss = 0;
  double loss_total = 0;  ///< of steps with a finite loss
  std::int64_t finite_losses = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double runtime_s = 0;        ///< evaluation and saving included
  double train_runtime_s = 0;  ///< steps alone
  int skipped_in_a_row = 0;    ///< the last steps that were not finite
  std::vector<monitor::EvalEnded> evaluations;

  void add(const monitor::StepEnded& step);
  double mean_loss() const { return finite_losses > 0 ? loss_total / static_cast<double>(finite_losses) : 0.0; }

  /// The section "run" of a checkpoint, as JSON; numbers come back bit for bit.
  std::string take() const;
  /// Throws Error when it is no such text.
  static Statistics give(const std::string& json);
};

}  // namespace train
CAPSTAN_END_NAMESPACE
