#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <utility>

#include "step/feed.h"
#include "step/step.h"
#include "step/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What is done about steps that were not finite: train.on_nonfinite. Their update was masked on the device, so weights
/// and optimizer state are as they were. One object a run.
class NonFiniteSteps {
 public:
  /// on_nonfinite = "skip" gives up at this many steps in a row: no update can come from them any more.
  static constexpr int most_in_a_row = 20;

  /// `folder`: for dumps. The others must outlive it.
  NonFiniteSteps(const step::Session& session, const step::LossScale& scale, std::filesystem::path folder)
      : session_(session), scale_(scale), folder_(std::move(folder)) {}

  void good() { in_a_row_ = 0; }
  /// How many of the last steps were bad; a checkpoint keeps it.
  int in_a_row() const { return in_a_row_; }
  void set_in_a_row(int steps) { in_a_row_ = steps; }
  /// A step without an update, with its loss and norm in `event`. Returns when the run continues: the loss scale was
  /// too large, or on_nonfinite is "skip"; rank 0 logs it. Throws Error that names parameter and unit, the same on all
  /// ranks. Collective over the world.
  void bad(const monitor::StepEnded& event, const step::StepNumbers& numbers, const step::StepInput& input);

 private:
  void skip(const std::string& what);
  // Ranks that see the same norm come here together: one of them logs.
  bool logs() const { return session_.norm_group->rank() == 0; }

  const step::Session& session_;
  const step::LossScale& scale_;
  std::filesystem::path folder_;
  int in_a_row_ = 0;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
