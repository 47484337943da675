// Which part of which record a rank holds, by the plan alone.
#include "shard/parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::shard {
namespace {

// Frozen records are the same on all ranks, whatever is local.
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

// Is this rank the one that writes a record of which `before` of all elements stand in front? Ranks that hold the same
// share the work: each has a run of records, of about as many elements.
bool writes(const layout::Param& record, const layout::Layout& layout, double before, const EngineOptions& options) {
  const auto same = sharers(record, layout);
  auto axes = own_axes(record);
  axes.insert(axes.end(), same.begin(), same.end());
  const int writer = static_cast<int>(before * options.mesh.size(same));
  return layout.with({0, axes}).counts(options.mesh, options.rank) &&
         options.mesh.position(options.rank, same) == writer;
}

std::int64_t all_elements(const Plan& plan) {
  std::int64_t sum = 0;
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) sum += planned.weight->numel();
  }
  return sum;
}

}  // namespace

void each_part(const Plan& plan, const EngineOptions& options, Of what, bool only_trainable,
               const std::function<void(const Part&)>& visit) {
  const auto all = static_cast<double>(all_elements(plan));
  std::int64_t before = 0;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& bucket = plan.buckets[b];
    const bool cut = what == Of::gradients ? bucket.cut_optim : bucket.gathers();
    const int position = cut ? options.mesh.position(options.rank, bucket.axes) : 0;
    for (std::size_t w = 0; w < bucket.weights.size(); ++w) {
      const auto& planned = bucket.weights[w];
      const auto& records = planned.weight->records();
      for (std::size_t r = 0; r < records.size(); ++r) {
        const auto& record = records[r];
        const double place = static_cast<double>(before) / all;
        before += record.numel();
        if (only_trainable && !bucket.trainable) continue;
        auto layout = cut ? record.sharded(options.mesh) : record.compute;
        auto box = layout.box(record.shape, options.mesh, options.rank);
        if (box.empty()) continue;
        const auto& piece = bucket.pieces(planned, position)[r];
        const bool counts = writes(record, layout, place, options);
        visit({b, w, record, std::move(layout), std::move(box), cut ? piece.in_chunk : piece.in_whole, counts,
               options.mesh.position(options.rank, own_axes(record))});
      }
    }
  }
}

std::int64_t saved_bytes(const Plan& plan, const EngineOptions& options, std::size_t states, bool only_trainable) {
  std::int64_t bytes = 0;
  each_part(plan, options, Of::parameters, only_trainable, [&](const Part& part) {
    if (!part.counts) return;
    const auto& bucket = plan.buckets[part.bucket];
    const auto size = static_cast<std::int64_t>(c10::elementSize(master_dtype(bucket, options)));
    const auto tensors = bucket.trainable ? 1 + static_cast<std::int64_t>(states) : 1;
    bytes += part.box.numel() * size * tensors;
  });
  return bytes;
}

}  // namespace capstan::shard
