#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/strategy/optimizer_rule.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shard/bucket_parameters.h"
#include "shard/engine.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// One thread that does one job at a time, in order. The next wait() rethrows what a job throws.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Waits for the previous job.
  void start(std::function<void()> job);
  void wait();

 private:
  void loop(int threads);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool busy_ = false;
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

/// Updates buckets whose masters and optimizer state are in host memory: gradients are copied to the host as soon as
/// they are summed (GradientOffload), the rule runs bucket by bucket on its own thread, in forward order as gradients
/// arrive, and each result is copied to the device at once, while the next forward computes with finished ones
/// (following Ren et al. 2021, "ZeRO-Offload").
class HostUpdate {
 public:
  explicit HostUpdate(Shared& shared) : shared_(shared) {}
  ~HostUpdate();
  /// In forward order, before the first step.
  void add(BucketParameters& bucket);
  bool empty() const { return items_.empty(); }

  /// Starts the update. With `publish` each bucket's parameters can be gathered as soon as it is done.
  void start(strategy::OptimizerRule& rule, const strategy::Update& update, bool publish);
  /// Waits until this bucket's update is done. Throws what the rule threw.
  void wait(const BucketParameters& bucket);
  void wait_all();
  void publish_all();
  const HostUpdateTimes& times() const { return times_; }
  /// The optimizer's state. No update may be at its first bucket ever, which makes it.
  void visit_held(const VisitHeld& visit) const;
  /// The rule's slices of a bucket, with the state kept for them.
  std::vector<strategy::Slice> slices(std::size_t item, std::size_t states);
  std::size_t item_of(const BucketParameters& bucket) const;

 private:
  struct Item {
    BucketParameters* bucket;
    std::vector<std::vector<at::Tensor>> state;  ///< by weight
    bool done = false;                           ///< updated since start()
  };
  void update_item(std::size_t i, strategy::OptimizerRule& rule, const strategy::Update& update, bool publish);
  void update_in_parts(BucketParameters& bucket, std::vector<strategy::Slice>& all, strategy::OptimizerRule& rule,
                       const strategy::Update& update);
  std::size_t next_item() const;
  void update_all(strategy::OptimizerRule& rule, const strategy::Update& update, bool publish);

  Shared& shared_;
  std::vector<Item> items_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;  ///< items updated since start(); guarded by the mutex, as each one's `done`
  bool under_way_ = false;
  bool failed_ = false;
  HostUpdateTimes times_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
