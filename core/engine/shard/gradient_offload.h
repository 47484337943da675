#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <map>
#include <vector>

#include "comm/side_stream.h"
#include "shard/footprint.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

using comm::Event;
using comm::SideStream;
struct Shared;

/// Summed gradients of buckets whose optimizer state is in host memory. The device has staging for a few shards: each
/// is summed, measured and sent, and then stays in host memory. If micro-steps accumulate, the earlier sum is copied
/// back before the next reduction, in the order in which it was sent: PCIe moves it while the device computes, and
/// results are bit-identical to those without offload.
class GradientOffload {
 public:
  explicit GradientOffload(const Shared& shared) : shared_(shared) {}
  /// Staging on the device, and the buckets' gradients in host memory.
  void allocate();

  void begin_micro_step(std::int64_t index);
  /// Where a bucket's shard is summed: [shard_elements]. The current stream waits until its previous content is sent.
  at::Tensor staging(const BucketPlan& bucket, c10::ScalarType dtype);
  /// The sum of the bucket's earlier micro-steps, [shard_elements]; the current stream waits for it. Call release()
  /// when the work that reads it is queued.
  at::Tensor earlier(const BucketPlan& bucket);
  void release(const BucketPlan& bucket);
  /// Sends the sum to the host when `done`.
  void send(const BucketPlan& bucket, const at::Tensor& sum, const Event& done);

  /// Its tensors.
  void add_held(HeldMemory& memory) const;
  /// The sum last sent: [shard_elements] in host memory, in the dtype in which it was sent. Valid after arrived().
  at::Tensor gradient(const BucketPlan& bucket) const;
  const Event& arrived(const BucketPlan& bucket) const { return hosts_.at(&bucket).arrived; }

 private:
  struct Host {
    at::Tensor memory;
    c10::ScalarType dtype;  ///< the current content's
    Event arrived;
  };
  struct Staging {
    at::Tensor memory;
    Event sent;
  };
  struct Return {
    at::Tensor memory;
    const BucketPlan* owner = nullptr;
    Event there;
    Event read;
  };
  void bring_next(Return& into);
  void bring(const BucketPlan& bucket, Return& into);

  const Shared& shared_;
  std::map<const BucketPlan*, Host> hosts_;
  std::vector<Staging> stagings_;
  std::size_t staging_ = 0;  ///< the one in use
  std::vector<Return> returns_;
  std::vector<const BucketPlan*> order_;  ///< the order in which the step's first micro-step sent
  std::size_t brought_ = 0;               ///< how many of these came back in this micro-step
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
