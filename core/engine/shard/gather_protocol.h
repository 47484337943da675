#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/unit_hooks.h>

#include <memory>
#include <optional>
#include <vector>

#include "shard/executor.h"
#include "shard/plan.h"
#include "shard/schedule.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

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
    State state = State::released;
    int users = 0;
    std::int64_t used = 0;  ///< forwards and backwards since it stays gathered through the step; 0: it does not
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
  std::vector<Backward> backwards_;  ///< of a step
  std::size_t backward_ = 0;
  std::vector<Gathered> gathered_;  ///< by bucket
  std::vector<std::int64_t> uses_;  ///< by bucket: a step's, through which it stays gathered; 0: it does not stay
  int holds_ = 0;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
