#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/door.h"
#include "step/feed.h"
#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace diagnosis {

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

/// See Door::bad_step.
Diagnostic explain(const BadStep& bad);

}  // namespace diagnosis
CAPSTAN_END_NAMESPACE
