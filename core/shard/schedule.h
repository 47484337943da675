#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/shard_policy.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Which run of units is gathered when, and which stay gathered. Handles no tensors.
class Schedule {
 public:
  Schedule(const ShardPlan& plan, strategy::ShardPolicy policy) : runs_(plan.runs), policy_(std::move(policy)) {}

  /// Gathered while this run's forward computes; asked before it starts.
  std::optional<std::size_t> prefetch_in_forward(std::size_t run) const;
  /// Gathered while this run's backward computes: asked before that is queued, or after.
  std::optional<std::size_t> prefetch_before_backward(std::size_t run) const;
  std::optional<std::size_t> prefetch_after_backward(std::size_t run) const;
  /// From forward to backward: the last run is the first of backward.
  bool stays_gathered(std::size_t run, bool with_grad) const;
  /// Backward needs this run again and its parameters will have been released.
  bool needs_regather(std::size_t run, bool with_grad) const {
    return with_grad && runs_[run].trainable() && !stays_gathered(run, true);
  }

 private:
  std::optional<std::size_t> previous(std::size_t run) const;
  const std::vector<Run>& runs_;
  strategy::ShardPolicy policy_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
