#include "shard/gradient_offload.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include <algorithm>

#include "shard/shared.h"

namespace capstan::shard {
namespace {

// The first elements of a buffer, viewed as another dtype.
at::Tensor view_as(const at::Tensor& memory, c10::ScalarType dtype, std::int64_t elements) {
  return memory.view(dtype).narrow(0, 0, elements);
}

}  // namespace

void GradientOffload::allocate() {
  for (const auto& buffer : shared_.plan.staging) {
    if (buffer.purpose == Purpose::offload_staging)
      stagings_.push_back({shard::allocate(buffer, shared_.device()), {}});
    if (buffer.purpose == Purpose::return_staging)
      returns_.push_back({shard::allocate(buffer, shared_.device()), nullptr, {}, {}});
  }
  for (const auto& bucket : shared_.plan.buckets) {
    if (const auto* buffer = bucket.buffer(Purpose::gradient_on_host))
      hosts_[&bucket] = {shard::allocate(*buffer, shared_.device()), buffer->dtype, {}};
  }
}

void GradientOffload::add_held(HeldMemory& memory) const {
  for (const auto& staging : stagings_) memory.add(Purpose::offload_staging, staging.memory);
  for (const auto& back : returns_) memory.add(Purpose::return_staging, back.memory);
  for (const auto& [bucket, host] : hosts_) memory.add(Purpose::gradient_on_host, host.memory, true);
}

void GradientOffload::begin_micro_step(std::int64_t index) {
  if (index == 0) {
    order_.clear();
    return;
  }
  brought_ = 0;
  for (auto& into : returns_) bring_next(into);
}

at::Tensor GradientOffload::staging(const BucketPlan& bucket, c10::ScalarType dtype) {
  staging_ = (staging_ + 1) % stagings_.size();
  stagings_[staging_].sent.wait(shared_.device());
  return view_as(stagings_[staging_].memory, dtype, bucket.shard_elements);
}

void GradientOffload::bring_next(Return& into) {
  into.owner = nullptr;
  if (brought_ < order_.size()) bring(*order_[brought_++], into);
}

void GradientOffload::bring(const BucketPlan& bucket, Return& into) {
  const at::NoGradGuard no_grad;
  const SideStream::Use on_stream(shared_.streams.bring_back, false);
  into.read.wait(shared_.device());
  arrived(bucket).wait(shared_.device());
  const auto from = gradient(bucket);
  view_as(into.memory, from.scalar_type(), bucket.shard_elements).copy_(from, /*non_blocking=*/true);
  into.there.record(shared_.device());
  into.owner = &bucket;
}

at::Tensor GradientOffload::earlier(const BucketPlan& bucket) {
  auto found =
      std::find_if(returns_.begin(), returns_.end(), [&](const Return& into) { return into.owner == &bucket; });
  if (found == returns_.end()) {
    // Backward's order differs from the first micro-step's. The sum that was in this buffer is copied again.
    found = returns_.begin();
    bring(bucket, *found);
  }
  found->there.wait(shared_.device());
  return view_as(found->memory, hosts_.at(&bucket).dtype, bucket.shard_elements);
}

void GradientOffload::release(const BucketPlan& bucket) {
  for (auto& into : returns_) {
    if (into.owner != &bucket) continue;
    into.read.record(shared_.device());
    bring_next(into);
  }
}

void GradientOffload::send(const BucketPlan& bucket, const at::Tensor& sum, const Event& done) {
  const at::NoGradGuard no_grad;
  auto& host = hosts_.at(&bucket);
  const SideStream::Use on_stream(shared_.streams.transfer, false);
  done.wait(shared_.device());
  host.dtype = sum.scalar_type();
  gradient(bucket).copy_(sum, /*non_blocking=*/true);
  host.arrived.record(shared_.device());
  stagings_[staging_].sent.record(shared_.device());
  if (std::find(order_.begin(), order_.end(), &bucket) == order_.end()) order_.push_back(&bucket);
}

at::Tensor GradientOffload::gradient(const BucketPlan& bucket) const {
  const auto& host = hosts_.at(&bucket);
  return view_as(host.memory, host.dtype, bucket.shard_elements);
}

}  // namespace capstan::shard
