#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a run counts from its first step on, whatever the number of times that it was stopped and resumed.
struct Statistics : monitor::Monitor {
  double first_loss = 0;
  double last_loss = 0;
  double loss_total = 0;  ///< sum over steps with a finite loss
  std::int64_t finite_losses = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double runtime_s = 0;        ///< evaluation and saving included
  double train_runtime_s = 0;  ///< only steps
  int skipped_in_a_row = 0;    ///< the last steps that were not finite
  std::vector<monitor::EvalEnded> evaluations;
  std::string stopped_early;  ///< why the run ended before its last step; not saved, since it follows from evaluations

  monitor::Values step_ended(const monitor::StepEnded& step) override;
  void eval_ended(const monitor::EvalEnded& evaluation) override { evaluations.push_back(evaluation); }
  /// The evaluation after `steps_done` steps: its loss, and the scores of answers where these were asked for then.
  std::optional<monitor::EvalEnded> evaluation_after(std::int64_t steps_done) const;
  /// A metric by its name in checkpoint.metric, such as "eval_loss", in all evaluations that have it.
  std::vector<double> values_of(const std::string& metric) const;
  /// Forgets the scores of answers to these splits' questions after `steps_done` steps: they come again.
  void drop_answers(std::int64_t steps_done, const std::vector<std::string>& splits);
  double mean_loss() const { return finite_losses > 0 ? loss_total / static_cast<double>(finite_losses) : 0.0; }

  /// The section "run" of a checkpoint, as JSON; numbers come back bit for bit.
  std::string save() const;
  /// Throws Error when it is no such text.
  static Statistics restore(const std::string& json);
};

}  // namespace train
CAPSTAN_END_NAMESPACE
