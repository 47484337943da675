#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/shard_policy.h>

#include <cstddef>
#include <optional>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Which run of units is gathered when, and what stays gathered. Knows no tensors.
class Schedule {
 public:
  Schedule(const Plan& plan, const strategy::ShardPolicy& policy) : runs_(plan.runs), policy_(policy) {}

  /// Gathered beside this run's forward, before it starts.
  std::optional<std::size_t> beside_forward(std::size_t run) const;
  /// Gathered beside this run's backward, before that is queued, or behind it.
  std::optional<std::size_t> before_backward(std::size_t run) const;
  std::optional<std::size_t> behind_backward(std::size_t run) const;
  /// Stays gathered from forward to backward: the last run is the first of backward.
  bool stays(std::size_t run, bool with_grad) const;
  /// Backward will come to this run and it will not be there.
  bool returns(std::size_t run, bool with_grad) const { return with_grad && runs_[run].trainable && !stays(run, true); }

 private:
  std::optional<std::size_t> previous(std::size_t run) const;
  const std::vector<Run>& runs_;
  strategy::ShardPolicy policy_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
