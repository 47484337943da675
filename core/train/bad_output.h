#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

#include "inference/feed.h"
#include "session/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The first unit in forward order whose output is not finite on some rank, or so large that its square is not; the
/// same on all ranks.
struct BadOutput {
  std::string unit;
  int rank = 0;                  ///< the first one that sees it …
  std::int64_t micro_batch = 0;  ///< … in its first micro-batch that does
  std::string weight;            ///< of the unit's weights the one with the largest element; "" for a unit without any
  double largest = 0;            ///< that element's magnitude
  std::string text() const;
};

/// Runs a step's forward once more, without gradients, and looks at what comes out of each unit. Backward cannot tell:
/// after one value that is not finite nearly all gradients are nan. It computes with the weights as they are now: on a
/// GPU the next step may have updated them since. Waits for the device. Collective over the world.
std::optional<BadOutput> find_bad_output(const session::Session& session, const inference::StepInput& input);

}  // namespace train
CAPSTAN_END_NAMESPACE
