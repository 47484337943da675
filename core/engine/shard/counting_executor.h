#pragma once
#include <capstan/base/export.h>

#include <functional>
#include <utility>
#include <vector>

#include "shard/executor.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Counts the buffers that are allocated and freed while units compute; footprint() counts permanent ones.
class CountingExecutor : public Executor {
 public:
  /// Called for each buffer that is allocated, and with negative bytes when it is freed.
  using Add = std::function<void(const Buffer& buffer, std::int64_t bytes)>;

  /// `plan` must outlive it.
  CountingExecutor(const ShardPlan& plan, Add add)
      : plan_(plan), add_(std::move(add)), holds_regather_(plan.buckets.size(), false) {}

  void prefetch(std::size_t bucket, bool keep) override {
    each(bucket, Lifetime::acquired, 1);
    if (holds_regather_[bucket]) {
      each(bucket, Lifetime::regather, -1);
      holds_regather_[bucket] = false;
      return;
    }
    each(bucket, Lifetime::gathering, 1);
    each(bucket, Lifetime::gathering, -1);
    holds_regather_[bucket] = keep && plan_.buckets[bucket].buffer(Purpose::regather);
    if (holds_regather_[bucket]) each(bucket, Lifetime::regather, 1);
  }
  void acquire(std::size_t /*bucket*/) override {}
  void release(std::size_t bucket) override { each(bucket, Lifetime::acquired, -1); }
  void reduce(std::size_t /*bucket*/, const Reduction& /*how*/) override {}

 protected:
  const ShardPlan& plan() const { return plan_; }

 private:
  void each(std::size_t bucket, Lifetime lifetime, int sign) const {
    for (const auto& buffer : plan_.buckets[bucket].buffers) {
      if (buffer.lifetime == lifetime) add_(buffer, sign * buffer.bytes());
    }
  }

  const ShardPlan& plan_;
  Add add_;                           ///< told of each allocation and of each release
  std::vector<bool> holds_regather_;  ///< by bucket
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
