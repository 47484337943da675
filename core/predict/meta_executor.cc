#include "predict/meta_executor.h"

#include <ATen/ATen.h>
#include <capstan/nn/codec.h>

#include <utility>

#include "ops/table_rows.h"

namespace capstan::predict {

MetaExecutor::MetaExecutor(const shard::ShardPlan& plan, Add add) : shard::CountingExecutor(plan, std::move(add)) {
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& bucket = plan.buckets[b];
    const auto meta = at::TensorOptions().device(at::kMeta).dtype(bucket.parameters.full);
    const auto leaf = [&](const shard::PlannedWeight& planned) {
      return at::empty(planned.sharding.shape, meta).set_requires_grad(bucket.trainable);
    };
    for (const auto& planned : bucket.weights) {
      planned.weight->bind(leaf(planned));
      if (!planned.in_bytes) continue;
      planned.weight->gathering_codec()->bind_gathered(at::empty(planned.sharding.shape, meta.dtype(at::kByte)),
                                                       at::empty({1}, meta.dtype(at::kFloat)));
    }
    if (!bucket.gradients.table) continue;
    const auto& planned = bucket.weights.front();
    const auto other = planned.weight->value();
    const auto table = bucket.gradients.only_looked_up() ? other : leaf(planned);
    ops::give_rows(table);
    tables_[b] = {table, other};
  }
}

void MetaExecutor::bind(std::size_t bucket, bool looks_up) {
  const auto& [table, other] = tables_.at(bucket);
  plan().buckets[bucket].weights.front().weight->bind(looks_up ? table : other);
}

void MetaExecutor::add_rows(std::size_t bucket, const shard::Reduction& how) {
  const auto& planned = plan().buckets[bucket];
  in_flight_.begin(bucket, planned.gradients.table->exchanged, [this](std::size_t done) { held_.erase(done); });
  auto table = tables_.at(bucket).table;
  table.mutable_grad().reset();
  if (!how.sums) return;
  const auto rows = at::empty({planned.gradients.table->rows, table.size(1)}, table.options().requires_grad(false));
  held_[bucket] = {rows, at::empty({planned.ranks * rows.size(0), rows.size(1)}, rows.options())};
}

// A gradient moves into a buffer at once, or replaces the previous step's; a reduction that reads autograd's own holds
// it while it is in flight.
void MetaExecutor::reduce(std::size_t bucket, const shard::Reduction& how) {
  in_flight_.begin(bucket, plan().buckets[bucket].full_elements, [this](std::size_t done) { held_.erase(done); });
  if (!plan().buckets[bucket].trainable) return;
  auto& held = held_[bucket];
  for (const auto& planned : plan().buckets[bucket].weights) {
    at::Tensor leaf = planned.weight->value();
    auto& gradient = leaf.mutable_grad();
    if (!how.accumulates && gradient.defined()) held.push_back(gradient);
    gradient.reset();
  }
}

}  // namespace capstan::predict
