#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/optimizer/rule.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "shard/bucket_parameters.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Time of updates in host memory on this rank, summed over the run.
struct HostUpdateTimes {
  std::int64_t updates = 0;
  std::int64_t elements = 0;  ///< updated in each, padding included
  double rule_s = 0;          ///< in the optimizer's rule, which also casts the parameters if fused
  double send_s = 0;          ///< casting parameters and queueing their copies to the device
  double wait_s = 0;          ///< waiting for gradients from the device
  double total_s = 0;         ///< from the norm to the last bucket
};

/// Updates buckets whose masters and optimizer state are in host memory: gradients are copied to the host as soon as
/// they are summed (GradientOffload), the rule runs bucket by bucket on its own thread, in forward order as gradients
/// arrive, and each result is copied to the device at once, while the next forward computes with finished ones
/// (following Ren et al. 2021, "ZeRO-Offload").
class HostUpdate {
 public:
  explicit HostUpdate(Shared& shared) : shared_(shared) {}
  ~HostUpdate();
  HostUpdate(const HostUpdate&) = delete;
  HostUpdate& operator=(const HostUpdate&) = delete;
  /// Called in forward order, before the first step.
  void add(BucketParameters& bucket, std::size_t index) { items_.push_back({&bucket, index}); }

  /// Starts the update; `lr` is before groups' factors. With `publish` each bucket's parameters can be gathered as soon
  /// as it is done.
  void start(double lr, const optimizer::Update& update, bool publish);
  /// Waits until this bucket's update is done. Throws what the rule threw, once.
  void wait(std::size_t bucket);
  void wait_all();
  void publish_all();
  /// Masters::views of a slice, once its gradients have arrived. No update may be running.
  optimizer::Slice arrived_slice(const OwnedSlice& owned, double lr, bool publish) const;
  const HostUpdateTimes& times() const { return times_; }

 private:
  struct Item {
    BucketParameters* bucket;  ///< the bucket that is updated
    std::size_t index;         ///< the bucket's number in the plan
    bool done = false;         ///< updated since start()
  };
  struct Job {
    double lr;
    optimizer::Update update;  ///< in host memory
    bool publish;
  };
  const Item& item_of(std::size_t bucket) const;
  void update_item(std::size_t i, const Job& job);
  bool update_in_parts(const Item& item, const Job& job);
  void update_by(optimizer::Rule& rule, const Item& item, const Job& job);
  optimizer::Slice slice_of(const OwnedSlice& owned, const Item& item, const Job& job) const;
  optimizer::Slice views_of(const OwnedSlice& owned, const BucketParameters& bucket, double lr, bool publish) const;
  std::size_t next_item() const;
  void update_all(const Job& job);
  void work(int threads);
  template <class Done>
  void wait_until(const Done& done);

  Shared& shared_;
  std::vector<Item> items_;
  HostUpdateTimes times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex, as each item's `done`.
  std::function<void()> job_;  ///< the update under way
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;  ///< runs from the first update on
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
