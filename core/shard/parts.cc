// Which part of which record a rank holds, by the plan alone.
#include "shard/parts.h"

#include <utility>

namespace capstan::shard {
namespace {

// Frozen records are the same on all ranks, whatever is local.
std::vector<layout::Axis> own_axes(const layout::Param& record) {
  return record.trainable ? record.local_axes : std::vector<layout::Axis>{};
}

}  // namespace

void each_part(const Plan& plan, const EngineOptions& options, Of what, bool only_trainable,
               const std::function<void(const Part&)>& visit) {
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& bucket = plan.buckets[b];
    if (only_trainable && !bucket.trainable) continue;
    const bool cut = what == Of::gradients ? bucket.cut_optim : bucket.gathers();
    const int position = cut ? options.mesh.position(options.rank, bucket.axes) : 0;
    for (std::size_t w = 0; w < bucket.weights.size(); ++w) {
      const auto& planned = bucket.weights[w];
      const auto& records = planned.weight->records();
      for (std::size_t r = 0; r < records.size(); ++r) {
        const auto& record = records[r];
        auto layout = cut ? record.sharded(options.mesh) : record.compute;
        auto box = layout.box(record.shape, options.mesh, options.rank);
        if (box.empty()) continue;
        const auto& piece = bucket.pieces(planned, position)[r];
        const auto own = own_axes(record);
        const bool counts = layout.with({0, own}).counts(options.mesh, options.rank);
        visit({b, w, record, std::move(layout), std::move(box), cut ? piece.in_chunk : piece.in_whole, counts,
               options.mesh.position(options.rank, own)});
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
