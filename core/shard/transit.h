#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <map>
#include <vector>

#include "shard/lanes.h"
#include "shard/options.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

using comm::Mark;

/// Summed gradients of buckets whose optimizer state is in host memory. On the device there is room for a few pieces at
/// a time: each is summed, measured and sent, and lies in host memory from then on. Where micro-steps add up, the
/// earlier ones' sum comes back for the next one's reduction, ahead of it and in the order in which it went: what PCIe
/// carries hides behind computing, and neither bits nor the norm's place change.
class Transit {
 public:
  Transit(const Plan& plan, const EngineOptions& options, const Lanes& lanes)
      : plan_(plan), options_(options), lanes_(lanes) {}
  /// Rooms on the device, and in host memory for these buckets' pieces.
  void allocate();

  void begin_micro_step(std::int64_t index);
  /// Where a bucket's piece is summed: [slab]. The current stream waits until what was there is sent.
  at::Tensor room(const BucketPlan& bucket, c10::ScalarType dtype);
  /// What the bucket's earlier micro-steps sum up to, [slab]; the current stream waits for it. Call release() when what
  /// reads it is queued.
  at::Tensor earlier(const BucketPlan& bucket);
  void release(const BucketPlan& bucket);
  /// Sends the sum to the host when `done`.
  void send(const BucketPlan& bucket, const at::Tensor& sum, const Mark& done);

  /// What was last sent: [slab] in host memory, in the dtype that it was sent in. There from arrived() on.
  at::Tensor gradient(const BucketPlan& bucket) const;
  const Mark& arrived(const BucketPlan& bucket) const { return hosts_.at(&bucket).arrived; }

 private:
  struct Host {
    at::Tensor memory;
    c10::ScalarType dtype;  ///< of what is there now
    Mark arrived;
  };
  struct Room {
    at::Tensor memory;
    Mark sent;
  };
  struct Back {
    at::Tensor memory;
    const BucketPlan* owner = nullptr;
    Mark there;
    Mark read;
  };
  void bring_next(Back& back);
  void bring(const BucketPlan& bucket, Back& back);

  const Plan& plan_;
  const EngineOptions& options_;
  const Lanes& lanes_;
  std::map<const BucketPlan*, Host> hosts_;
  std::vector<Room> rooms_;
  std::size_t room_ = 0;  ///< the one in use
  std::vector<Back> backs_;
  std::vector<const BucketPlan*> order_;  ///< in which the step's first micro-step sent
  std::size_t brought_ = 0;               ///< of these, in this micro-step
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
