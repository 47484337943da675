#include "shard/boxes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "nn/blocks.h"
#include "shard/footprint.h"
#include "shard/slices.h"
#include "strategy/joint_updates.h"

namespace capstan::shard {
namespace {

// Frozen records are the same on all ranks, whatever the local axes.
std::vector<layout::Axis> own_axes(const layout::Param& record) {
  return record.trainable ? record.local_axes : std::vector<layout::Axis>{};
}

// The data axes whose ranks hold the same box of a record.
std::vector<layout::Axis> sharers(const layout::Param& record, const layout::Layout& layout) {
  auto apart = own_axes(record);
  for (const auto& cut : layout.cuts) apart.insert(apart.end(), cut.axes.begin(), cut.axes.end());
  std::vector<layout::Axis> same;
  std::copy_if(record.data_axes.begin(), record.data_axes.end(), std::back_inserter(same),
               [&](layout::Axis axis) { return !layout::has_axis(apart, axis); });
  return same;
}

// Does this rank write a record that comes after `before` of all elements? Ranks that hold the same boxes divide the
// work: each writes consecutive records with about the same number of elements.
bool writes_record(const layout::Param& record, const layout::Layout& layout, double before,
                   const EngineOptions& options) {
  const auto same = sharers(record, layout);
  auto axes = own_axes(record);
  axes.insert(axes.end(), same.begin(), same.end());
  const int writer = static_cast<int>(before * options.mesh.size(same));
  return layout.with({0, axes}).counts(options.mesh, options.rank) &&
         options.mesh.position(options.rank, same) == writer;
}

std::int64_t master_bytes(const ShardPlan& plan, const HeldBox& held) {
  const auto size = c10::elementSize(plan.buckets[held.bucket].parameters.master);
  return held.box.numel() * static_cast<std::int64_t>(size);
}

}  // namespace

void each_box(const ShardPlan& plan, const EngineOptions& options, Of what, bool only_trainable,
              const std::function<void(const HeldBox&)>& visit) {
  const auto all = static_cast<double>(parameters(plan, false));
  std::int64_t before = 0;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& bucket = plan.buckets[b];
    const bool sharded = what == Of::gradients ? bucket.shards_optim : bucket.parameters.gathers();
    const bool left_out = bucket.parameters.form != Form::values || (only_trainable && !bucket.trainable);
    const int position = sharded ? options.mesh.position(options.rank, bucket.axes) : 0;
    for (std::size_t w = 0; w < bucket.weights.size(); ++w) {
      const auto& planned = bucket.weights[w];
      const auto& records = planned.weight->records();
      for (std::size_t r = 0; r < records.size(); ++r) {
        const auto& record = records[r];
        const double place = static_cast<double>(before) / all;
        before += record.numel();
        if (left_out) continue;
        auto layout = sharded ? record.sharded(options.mesh) : record.compute;
        auto box = layout.box(record.shape, options.mesh, options.rank);
        if (box.empty()) continue;
        const auto shard = planned.sharding.shard(r, position);
        const bool writes = writes_record(record, layout, place, options);
        visit({b, w, record, std::move(layout), std::move(box), sharded ? shard.in_shard : shard.in_full, writes,
               copy_of(record, options)});
      }
    }
  }
}

int copy_of(const layout::Param& record, const EngineOptions& options) {
  return options.mesh.position(options.rank, own_axes(record));
}

bool owns_for_norm(const layout::Param& record, const BucketPlan& bucket, const EngineOptions& options) {
  auto axes = bucket.axes;
  axes.insert(axes.end(), record.local_axes.begin(), record.local_axes.end());
  return record.compute.with({0, axes}).counts(options.mesh, options.rank);
}

std::int64_t saved_bytes(const ShardPlan& plan, const EngineOptions& options, bool only_trainable) {
  std::int64_t bytes = 0;
  each_box(plan, options, Of::parameters, only_trainable, [&](const HeldBox& held) {
    if (!held.writes_to_checkpoint) return;
    bytes += master_bytes(plan, held);
    if (!plan.buckets[held.bucket].trainable || !options.optimizer) return;
    for (const auto& spec : options.optimizer->of(held.record).rule->states(held.record)) {
      const auto dtype = spec.dtype.value_or(plan.buckets[held.bucket].parameters.master);
      bytes += layout::blocks_in(held.box.numel(), spec.block) * static_cast<std::int64_t>(c10::elementSize(dtype));
    }
  });
  if (!options.optimizer) return bytes;
  const auto joint = strategy::state_bytes(joint_updates(plan, options), /*only_saved=*/true);
  return bytes + joint.device + joint.host;
}

std::int64_t trained_master_bytes(const ShardPlan& plan, const EngineOptions& options) {
  std::int64_t bytes = 0;
  each_box(plan, options, Of::parameters, true, [&](const HeldBox& held) { bytes += master_bytes(plan, held); });
  return bytes;
}

}  // namespace capstan::shard
