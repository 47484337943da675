#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/data/order.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// What the plan of a run is made from.
struct PlanRequest {
  std::int64_t samples = 0;            ///< samples of the training split
  std::shared_ptr<SampleOrder> order;  ///< its own; null: it has none
  std::int64_t global_batch = 1;
  std::optional<std::int64_t> epochs;     ///< if both are set, the run ends
  std::optional<std::int64_t> max_steps;  ///< at whichever comes first
  bool drop_last = false;  ///< an epoch's last incomplete batch: false = filled with empty slots, true = left out
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::string where_samples;  ///< where the configuration sets the data
  std::string where_batch;    ///< … and the global batch
  std::string where_length;   ///< … and max_steps or epochs
};

/// How many steps a run takes and to which epoch each belongs. A run's cursor is only its number of steps done: every
/// function here takes any step, in any order. A default-made plan (of a job that does not train) has no epochs: asking
/// it about a step is a bug, and throws std::logic_error.
struct Plan {
  std::int64_t samples = 0;  ///< an epoch sees this number
  std::int64_t global_batch = 1;
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps = 0;  ///< in the whole run
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::shared_ptr<SampleOrder> order = {};  ///< the training split's own; null: it has none

  /// Samples that an epoch visits: all of them, or with drop_last those of its full batches.
  std::int64_t samples_per_epoch() const;
  std::int64_t epoch_of(std::int64_t step) const;
  /// Whether `steps_done` steps are complete epochs.
  bool ends_epoch(std::int64_t steps_done) const;
  /// Samples seen in the first `steps_done` steps, empty slots not counted.
  std::int64_t consumed(std::int64_t steps_done) const;
  double epoch_progress(std::int64_t steps_done) const;
};

/// Faults (no samples, no full batch under drop_last, neither epochs nor max_steps) are added to `diagnostics`;
/// the plan is then empty (steps = 0).
Plan make_plan(const PlanRequest& request, Diagnostics& diagnostics);

/// A place in a global batch.
struct Slot {
  std::int64_t sample = -1;  ///< index into the data source; -1 = empty, weight 0
  std::int64_t id = -1;      ///< run-wide sample id: how many samples the run saw before this one; -1 = empty

  bool operator==(const Slot&) const = default;
};

/// The global batches of a plan; BatchShape says how one is divided. Every rank computes them by itself, so they need
/// no communication and do not depend on the world size. Remembers the order of one epoch, so use each object from one
/// thread.
class Batches {
 public:
  explicit Batches(const Plan& plan) : plan_(plan) {}
  /// The global_batch slots of a step. Empty slots only occur at the end of an epoch's last batch.
  std::vector<Slot> slots(std::int64_t step);
  const Plan& plan() const { return plan_; }

 private:
  std::vector<std::int64_t> samples(std::int64_t epoch, std::int64_t first, std::int64_t count);
  Plan plan_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace data
CAPSTAN_END_NAMESPACE
