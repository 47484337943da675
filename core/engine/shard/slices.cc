#include "shard/slices.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <map>
#include <utility>

#include "nn/blocks.h"
#include "shard/boxes.h"

namespace capstan::shard {
namespace {

// The elements that the rule reads of a weight on this rank: as many as its master and gradient have.
std::int64_t elements_of(const BucketPlan& bucket, std::size_t weight) {
  const auto& sharding = bucket.weights[weight].sharding;
  if (bucket.shards_optim) return sharding.shard_elements;
  return bucket.gradients.autograd ? sharding.numel : sharding.full_elements;
}

void plan_states(PlannedSlice& slice, const BucketPlan& bucket, c10::ScalarType master) {
  const auto& record = slice.record ? *slice.record : bucket.weights[slice.weight].weight->records().front();
  for (auto& spec : slice.group->rule->states(record)) {
    CAPSTAN_ASSERT(spec.block == 1 || slice.record);
    const Buffer buffer{Purpose::optimizer_state,
                        layout::blocks_in(slice.elements, spec.block),
                        spec.dtype.value_or(master),
                        bucket.on_host ? Memory::host : Memory::device,
                        Lifetime::always,
                        slice.weight};
    slice.states.push_back({std::move(spec), buffer});
  }
}

bool comes_before(const PlannedSlice& a, const PlannedSlice& b) {
  return std::pair(a.bucket, a.weight) < std::pair(b.bucket, b.weight);
}

}  // namespace

std::int64_t PlannedSlice::state_bytes() const {
  std::int64_t sum = 0;
  for (const auto& state : states) sum += state.buffer.bytes();
  return sum;
}

at::Tensor OwnedSlice::of(const at::Tensor& all) const {
  return all.defined() && record ? all.narrow(0, begin, elements) : all;
}

std::vector<optimizer::Rule*> rules_of(std::span<const OwnedSlice> slices) {
  std::vector<optimizer::Rule*> rules;
  for (const auto& slice : slices) {
    auto* rule = slice.group->rule.get();
    if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.push_back(rule);
  }
  return rules;
}

std::span<const OwnedSlice> slices_of(const std::vector<OwnedSlice>& slices, std::size_t bucket) {
  const auto [begin, end] =
      std::equal_range(slices.begin(), slices.end(), OwnedSlice{{bucket}},
                       [](const OwnedSlice& a, const OwnedSlice& b) { return a.bucket < b.bucket; });
  return {begin, end};
}

std::span<const OwnedSlice> slices_of(const std::vector<OwnedSlice>& slices, std::size_t bucket, std::size_t weight) {
  const auto [begin, end] = std::equal_range(slices.begin(), slices.end(), OwnedSlice{{bucket, weight}}, &comes_before);
  return {begin, end};
}

bool are_fused(std::span<const OwnedSlice> slices) {
  return std::all_of(slices.begin(), slices.end(), [](const auto& slice) { return slice.group->rule->is_fused(); });
}

std::vector<PlannedSlice> plan_slices(const ShardPlan& plan, const EngineOptions& options) {
  CAPSTAN_ASSERT(options.optimizer);
  const auto& optimizer = *options.optimizer;
  std::vector<PlannedSlice> slices;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& bucket = plan.buckets[b];
    for (std::size_t w = 0; bucket.trainable && w < bucket.weights.size(); ++w) {
      const auto& weight = *bucket.weights[w].weight;
      if (!optimizer.is_one_slice(weight)) continue;
      const auto& first = weight.records().front();
      slices.push_back(
          {b, w, &optimizer.of(first), nullptr, {}, 0, elements_of(bucket, w), optimizer.weight_decay(first)});
    }
  }
  each_box(plan, options, Of::parameters, /*only_trainable=*/true, [&](const HeldBox& held) {
    if (optimizer.is_one_slice(*plan.buckets[held.bucket].weights[held.weight].weight)) return;
    slices.push_back({held.bucket, held.weight, &optimizer.of(held.record), &held.record, held.box, held.begin,
                      held.box.numel(), optimizer.weight_decay(held.record)});
  });
  std::stable_sort(slices.begin(), slices.end(), &comes_before);
  for (auto& slice : slices) plan_states(slice, plan.buckets[slice.bucket], options.precision.master);
  return slices;
}

std::vector<layout::Axis> joint_axes(const ShardPlan& plan, const EngineOptions& options) {
  auto axes = layout::all_axes;
  std::erase(axes, layout::Axis::pp);
  for (const auto& bucket : plan.buckets) {
    if (!bucket.trainable) continue;
    for (const auto axis : bucket.weights.front().weight->records().front().local_axes) std::erase(axes, axis);
    // A group of the same ranks that there is anyway spares a communicator's memory.
    if (options.mesh.size(bucket.axes) == options.mesh.size(axes)) return bucket.axes;
    break;
  }
  return axes;
}

optimizer::Sharing sharing_of(const optimizer::Rule& rule, const ShardPlan& plan, const EngineOptions& options) {
  const auto slices = plan_slices(plan, options);
  const auto axes = joint_axes(plan, options);
  std::map<const layout::Param*, std::size_t> place;
  for (std::size_t i = 0; i < slices.size(); ++i) place[slices[i].record] = i;
  optimizer::Sharing sharing{
      {}, options.mesh.position(options.rank, axes), options.precision.master, options.precision.device.type()};
  for (const auto& bucket : plan.buckets) {
    for (std::size_t w = 0; bucket.trainable && w < bucket.weights.size(); ++w) {
      for (const auto& record : bucket.weights[w].weight->records()) {
        if (options.optimizer->of(record).rule.get() != &rule) continue;
        sharing.records.push_back({&record, {}, place[&record], bucket.on_host});
        const auto layout = bucket.parameters.gathers() ? record.sharded(options.mesh) : record.compute;
        for (const auto rank : options.mesh.ranks_along(axes, options.rank))
          sharing.records.back().boxes.push_back(layout.box(record.shape, options.mesh, rank));
      }
    }
  }
  return sharing;
}

std::vector<std::unique_ptr<optimizer::JointUpdate>> joint_updates(const ShardPlan& plan,
                                                                   const EngineOptions& options) {
  std::vector<std::unique_ptr<optimizer::JointUpdate>> updates;
  for (auto* rule : options.optimizer->rules()) {
    if (rule->grain() != optimizer::Grain::record) continue;
    if (auto update = rule->joint(sharing_of(*rule, plan, options))) updates.push_back(std::move(update));
  }
  return updates;
}

}  // namespace capstan::shard
