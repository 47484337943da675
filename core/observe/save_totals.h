#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace observe {

/// What the checkpoints of this process took.
struct SaveTotals {
  std::int64_t saves = 0;
  std::int64_t bytes = 0;   ///< of all ranks
  double stall_s = 0;       ///< how long training waited
  double most_stall_s = 0;  ///< … for one of them
  double write_s = 0;
  std::string last;  ///< the newest that is committed
};

/// The best that was evaluated and saved.
struct Best {
  std::int64_t step = 0;
  double value = 0;
  std::string path;
};

/// What a run's summary says of its checkpoints.
struct CheckpointSummary {
  SaveTotals totals;
  std::optional<Best> best;
};

}  // namespace observe
CAPSTAN_END_NAMESPACE
