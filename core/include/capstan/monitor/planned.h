#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// What is known of a run before it begins.
struct PlannedRun {
  std::int64_t ranks = 1;
  std::int64_t steps = 0;  ///< in the whole run; 0: not known
  int rank = 0;            ///< who asks; `check` is rank 0 (SDK 1.25.1)
};

/// A monitor derives from this too if its options name something that a run need not have. `check` and each start of a
/// run ask it, on every rank.
class PlannedRunCheck {
 public:
  virtual ~PlannedRunCheck();
  /// Adds a fault for what the run will not have.
  virtual void check(const PlannedRun& run, Diagnostics& diagnostics) const = 0;
};

}  // namespace monitor
CAPSTAN_END_NAMESPACE
