// Leaves and gradients of a dry run.
#include "predict/meta_executor.h"

#include <capstan_catch.h>

#include "shard/rig.h"

namespace meta_executor_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("weights are bound on the meta device, and gradients go when the engine takes them") {
  const bool accumulates = GENERATE(false, true);
  const auto chain = rig_chain({.layer2_trains = false});
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
  options.precision.compute = at::kBFloat16;
  const auto plan = shard::make_plan(pointers(chain), options);
  predict::MetaExecutor executor(plan, [](const shard::Buffer&, std::int64_t) {});
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> gradients;
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) {
      at::Tensor leaf = planned.weight->value();
      CHECK(leaf.is_meta());
      CHECK(leaf.scalar_type() == at::kBFloat16);
      CHECK(leaf.requires_grad() == bucket.trainable);
      if (!bucket.trainable) continue;
      leaf.mutable_grad() = at::empty_like(leaf);
      gradients.emplace_back(leaf.grad().getIntrusivePtr());
    }
  }
  // A reduction holds a bucket's gradients while it is in flight; together these are small.
  shard::Reduction how;
  how.accumulates = accumulates;
  how.sums = true;
  std::size_t seen = 0;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    executor.reduce(b, how);
    if (!plan.buckets[b].trainable) continue;
    for (const auto& planned : plan.buckets[b].weights) {
      CHECK(!planned.weight->value().grad().defined());
      CHECK(gradients[seen++].expired() == accumulates);
    }
  }
  CHECK(seen == gradients.size());
}

}  // namespace meta_executor_test
