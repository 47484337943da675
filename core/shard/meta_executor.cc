#include "shard/meta_executor.h"

#include <ATen/ATen.h>

#include <utility>

namespace capstan::shard {

MetaExecutor::MetaExecutor(const ShardPlan& plan, Add add) : CountingExecutor(plan, std::move(add)) {
  for (const auto& bucket : plan.buckets) {
    const auto meta = at::TensorOptions().device(at::kMeta).dtype(bucket.parameters.full);
    for (const auto& planned : bucket.weights)
      planned.weight->bind(at::empty(planned.sharding.shape, meta).set_requires_grad(bucket.trainable));
  }
}

// A gradient moves into a buffer at once, or replaces the previous step's; a reduction that reads autograd's own holds
// it until the next bucket's begins.
void MetaExecutor::reduce(std::size_t bucket, const Reduction& how) {
  held_.clear();
  if (!plan().buckets[bucket].trainable) return;
  for (const auto& planned : plan().buckets[bucket].weights) {
    at::Tensor leaf = planned.weight->value();
    auto& gradient = leaf.mutable_grad();
    if (!how.accumulates && gradient.defined()) held_.push_back(gradient);
    gradient.reset();
  }
}

}  // namespace capstan::shard
