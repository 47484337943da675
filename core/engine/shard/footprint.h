#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The memory that the engine allocates for a plan on one rank, part by part: the plan's buffers and the
/// optimizer's states, added up.
std::vector<layout::Footprint> footprint(const ShardPlan& plan, const EngineOptions& options);

/// The same for tensors as they are: each storage counts once, as what it was added for first.
class HeldMemory {
 public:
  /// `device`: the run's.
  explicit HeldMemory(std::string device) : device_(std::move(device)) {}
  /// `gathered`: full parameters that are freed again.
  void add(Purpose purpose, const at::Tensor& tensor, bool on_host = false, bool gathered = false);
  const std::vector<layout::Footprint>& list() const { return parts_; }

 private:
  std::string device_;             ///< the name that the parts bear
  std::set<const void*> counted_;  ///< storages that have been added
  std::vector<layout::Footprint> parts_;
};

/// Elements of all weights, or of those that are trained (logical).
std::int64_t parameters(const ShardPlan& plan, bool only_trainable);

}  // namespace shard
CAPSTAN_END_NAMESPACE
