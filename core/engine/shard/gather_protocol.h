#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/shard_policy.h>
#include <capstan/strategy/unit_hooks.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "shard/executor.h"
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

/// The one place that decides when a bucket is gathered, used, released and reduced while units compute, from the
/// hooks around them. It handles no tensors: an executor does.
class GatherProtocol {
 public:
  /// `plan` and `executor` must outlive it.
  GatherProtocol(const ShardPlan& plan, const EngineOptions& options, Executor& executor);

  /// Hooks around unit `unit`; those of units inside a run do nothing.
  std::unique_ptr<strategy::UnitHooks> hooks(std::size_t unit);
  /// The step's backward to which the following calls of backward hooks belong, counted from 0: without pipelines, the
  /// micro-step.
  void begin_backward(std::int64_t index) { backward_ = static_cast<std::size_t>(index); }
  /// Are gradients taken from the leaves when its units' are there?
  bool completes_gradients() const { return backwards_[backward_].completes; }
  /// All that a micro-step's hooks do on the stream that computes, they do in memory of this rank whose addresses stay:
  /// nothing is gathered, released or sent to host memory. Where parameters are gathered once a step, they already are.
  bool stays_in_place() const;
  /// A forward without gradients finds all that it needs in this rank's memory. While parameters are held they stay
  /// there.
  bool reads_locally() const;
  /// What is gathered or decoded from now on stays, until the last of those that this has returned is gone.
  std::shared_ptr<void> hold();
  /// A bucket's shards have changed: it is gathered again when next used.
  void invalidate(std::size_t bucket);

  // What the hooks call, by run.
  void before_forward(std::size_t run, bool with_grad);
  void after_forward(std::size_t run, bool with_grad);
  void before_backward(std::size_t run);
  void after_backward(std::size_t run);
  void after_weight_gradients(std::size_t run);
  void end_backward(std::size_t run);

 private:
  class Hooks;
  enum class State { released, gathering, there };
  struct Gathered {
    State state = State::released;  ///< whether its full weights are there
    int users = 0;                  ///< runs that compute with it now
    std::int64_t used = 0;          ///< forwards and backwards since it stays gathered through the step; 0: it does not
  };

  void gather(std::size_t bucket, bool keep);
  void acquire(std::size_t run, bool with_grad);
  void prefetch(std::optional<std::size_t> run, bool with_grad);
  void release(std::size_t run);
  void free_unused(std::size_t bucket);
  void let_go();
  void count_use(std::size_t run);
  void bind_tables(std::size_t run);
  Reduction reduction(std::size_t bucket, std::size_t backward) const;
  bool ends_in_stage(const BucketPlan& bucket, std::size_t run) const;

  const ShardPlan& plan_;
  Executor& executor_;
  Schedule schedule_;
  std::vector<Backward> backwards_;  ///< a step's backwards, in their order
  std::size_t backward_ = 0;         ///< the current one's place among them
  std::vector<Gathered> gathered_;   ///< by bucket
  std::vector<std::int64_t> uses_;   ///< by bucket: a step's, through which it stays gathered; 0: it does not stay
  int holds_ = 0;                    ///< callers of hold() that have not ended
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
