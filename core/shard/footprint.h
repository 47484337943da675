#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The memory that the engine allocates for a plan on one rank, part by part: the plan's buffers, added up. `states`:
/// tensors of optimizer state per slice, as the rule says.
std::vector<layout::Footprint> footprint(const ShardPlan& plan, const EngineOptions& options, std::size_t states);

/// The same of tensors as they are: each storage once, as what it was added for first.
class HeldMemory {
 public:
  void add(Purpose purpose, const at::Tensor& tensor, bool on_host);
  /// Full parameters that are added from now on are gathered and freed again.
  void set_gathered(bool gathered) { gathered_ = gathered; }
  /// `device`: the run's.
  std::vector<layout::Footprint> list(const std::string& device) const;

 private:
  bool gathered_ = false;
  std::set<const void*> counted_;
  std::vector<layout::Footprint> parts_;
};

/// Elements of all weights that are trained (logical).
std::int64_t trainable_parameters(const ShardPlan& plan);

}  // namespace shard
CAPSTAN_END_NAMESPACE
