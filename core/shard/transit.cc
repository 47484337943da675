#include "shard/transit.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/pinned.h>

#include <algorithm>

namespace capstan::shard {
namespace {

// The first elements of some memory, as another dtype.
at::Tensor view_as(const at::Tensor& memory, c10::ScalarType dtype, std::int64_t elements) {
  return memory.view(dtype).narrow(0, 0, elements);
}

}  // namespace

void Transit::allocate() {
  const auto sizes = scratch_sizes(plan_, options_);
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(options_.precision.device);
  rooms_.resize(static_cast<std::size_t>(sizes.rooms));
  for (auto& room : rooms_) room.memory = at::empty({sizes.room}, bytes);
  backs_.resize(static_cast<std::size_t>(sizes.backs));
  for (auto& back : backs_) back.memory = at::empty({sizes.back}, bytes);
  for (const auto& bucket : plan_.buckets) {
    if (!gradient_storage(bucket, options_).passes) continue;
    const auto dtype = host_gradient_dtype(bucket, options_);
    hosts_[&bucket] = {
        ops::host_zeros(bucket.slab, dtype, options_.policy.pin_memory, options_.precision.device), dtype, {}};
  }
}

void Transit::begin_micro_step(std::int64_t index) {
  if (index == 0) {
    order_.clear();
    return;
  }
  brought_ = 0;
  for (auto& back : backs_) bring_next(back);
}

at::Tensor Transit::room(const BucketPlan& bucket, c10::ScalarType dtype) {
  room_ = (room_ + 1) % rooms_.size();
  rooms_[room_].sent.wait(options_.precision.device);
  return view_as(rooms_[room_].memory, dtype, bucket.slab);
}

void Transit::bring_next(Back& back) {
  back.owner = nullptr;
  if (brought_ < order_.size()) bring(*order_[brought_++], back);
}

void Transit::bring(const BucketPlan& bucket, Back& back) {
  const at::NoGradGuard no_grad;
  const Lane::Use lane(lanes_.back, false);
  const auto device = options_.precision.device;
  back.read.wait(device);
  arrived(bucket).wait(device);
  const auto from = gradient(bucket);
  view_as(back.memory, from.scalar_type(), bucket.slab).copy_(from, /*non_blocking=*/true);
  back.there.record(device);
  back.owner = &bucket;
}

at::Tensor Transit::earlier(const BucketPlan& bucket) {
  auto found = std::find_if(backs_.begin(), backs_.end(), [&](const Back& back) { return back.owner == &bucket; });
  if (found == backs_.end()) {
    // Backward came here in another order than in the first micro-step. What was in this room comes again.
    found = backs_.begin();
    bring(bucket, *found);
  }
  found->there.wait(options_.precision.device);
  return view_as(found->memory, hosts_.at(&bucket).dtype, bucket.slab);
}

void Transit::release(const BucketPlan& bucket) {
  for (auto& back : backs_) {
    if (back.owner != &bucket) continue;
    back.read.record(options_.precision.device);
    bring_next(back);
  }
}

void Transit::send(const BucketPlan& bucket, const at::Tensor& sum, const Mark& done) {
  const at::NoGradGuard no_grad;
  const auto device = options_.precision.device;
  auto& host = hosts_.at(&bucket);
  const Lane::Use lane(lanes_.transfer, false);
  done.wait(device);
  host.dtype = sum.scalar_type();
  gradient(bucket).copy_(sum, /*non_blocking=*/true);
  host.arrived.record(device);
  rooms_[room_].sent.record(device);
  if (std::find(order_.begin(), order_.end(), &bucket) == order_.end()) order_.push_back(&bucket);
}

at::Tensor Transit::gradient(const BucketPlan& bucket) const {
  const auto& host = hosts_.at(&bucket);
  return view_as(host.memory, host.dtype, bucket.slab);
}

}  // namespace capstan::shard
