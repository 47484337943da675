#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "step/feed.h"
#include "step/step.h"
#include "step/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// A weight with something that is not finite.
struct BadWeight {
  std::string parameter;
  std::string unit;  ///< the first in forward order that uses it
  double norm = 0;   ///< its gradient's, without the loss scale
};

/// The first unit in forward order whose output is not finite on some rank, or so large that its square is not; the
/// same on all ranks.
struct BadOutput {
  std::string unit;
  int rank = 0;                  ///< the first one that sees it …
  std::int64_t micro_batch = 0;  ///< … in its first micro-batch that does
  std::string weight;            ///< the unit's weight with the largest element; "" for a unit without any
  double largest = 0;            ///< the element's magnitude
  std::string text() const;
};

/// Runs a step's forward once more, without gradients, and looks at what comes out of each unit. Backward cannot tell:
/// after one value that is not finite nearly all gradients are nan. It computes with the weights as they are now: on a
/// GPU the next step may have updated them since. Waits for the device. Collective over the world.
std::optional<BadOutput> find_bad_output(const step::Session& session, const step::StepInput& input);

/// Where numbers are not finite, over all ranks; lists in forward order, the same on each.
struct NonFinite {
  std::vector<BadWeight> values;     ///< parameters that themselves hold nan or inf
  std::optional<BadOutput> output;   ///< the first of forward
  std::vector<BadWeight> gradients;  ///< weights whose gradient does
  std::size_t trainable = 0;         ///< weights that have a gradient
  /// The first place, in words.
  std::string text() const;
};

/// Looks at the parameters as they are now, and at the gradients by what a step left: `norms` as in StepNumbers,
/// `scale` the loss scale in them; not at outputs. Waits for the device. Collective over the ranks that share a norm.
NonFinite find_nonfinite(const step::Session& session, const at::Tensor& norms, double scale);

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
  std::string fix(const NonFinite& found, std::int64_t step) const;
  void skip(const std::string& what);
  std::string dump(const monitor::StepEnded& event, const NonFinite& found, const step::StepInput& input);

  const setup::TrainOptions& options() const { return *session_.job->config.train; }

  const step::Session& session_;
  const step::LossScale& scale_;
  std::filesystem::path folder_;
  int in_a_row_ = 0;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
