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
  using BackwardPrefetch = strategy::BackwardPrefetch;
  Schedule(const ShardPlan& plan, strategy::ShardPolicy policy) : runs_(plan.runs), policy_(std::move(policy)) {}

  /// What is gathered while this run's forward computes; asked before it starts.
  std::optional<std::size_t> prefetch_in_forward(std::size_t run) const {
    const bool is_last = run + 1 == runs_.size() || runs_[run + 1].stage != runs_[run].stage;
    return policy_.forward_prefetch && !is_last ? std::optional(run + 1) : std::nullopt;
  }
  /// What is gathered while this run's backward computes: asked before that is queued (pre), or after (post).
  std::optional<std::size_t> prefetch_in_backward(std::size_t run, BackwardPrefetch when) const {
    // Backward ends at the first run of the stage, or the first that has something to train.
    const bool is_last = run == 0 || runs_[run - 1].stage != runs_[run].stage || !runs_[run - 1].trainable();
    return policy_.backward_prefetch == when && !is_last ? std::optional(run - 1) : std::nullopt;
  }
  /// Does the run stay gathered from forward to backward? The last run is the first of backward.
  bool stays_gathered(std::size_t run, bool with_grad) const {
    if (!with_grad || !runs_[run].trainable()) return false;
    // What a codec keeps is decoded for one run at a time, whatever stays gathered.
    return run + 1 == runs_.size() || (!policy_.reshard_after_forward && !runs_[run].packs);
  }
  /// Will backward need this run again after its parameters have been released?
  bool needs_regather(std::size_t run, bool with_grad) const {
    return with_grad && runs_[run].trainable() && !stays_gathered(run, true);
  }

 private:
  const std::vector<UnitRun>& runs_;
  strategy::ShardPolicy policy_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
