#include <capstan/layout/param.h>

#include <algorithm>

namespace capstan::layout {

std::vector<Axis> Param::shard_axes() const {
  std::vector<Axis> axes;
  for (const Axis axis : data_axes) {
    const bool is_local = has_axis(local_axes, axis);
    if (axis != Axis::replicate && !is_local) axes.push_back(axis);
  }
  return axes;
}

Layout Param::sharded(const Mesh& mesh) const {
  const auto axes = shard_axes();
  const auto local = Layout{compute.cuts}.box(shape, mesh, 0).size;  // the same answer on all ranks
  const auto shares_evenly = [&](std::int64_t dim) {
    return local.empty() || local[static_cast<std::size_t>(dim)] % mesh.size(axes) == 0;
  };
  const auto found = std::find_if(shard_dims.begin(), shard_dims.end(), shares_evenly);
  return compute.with({found == shard_dims.end() ? shard_dims.back() : *found, axes});
}

std::int64_t Param::partial_ranks(const Mesh& mesh) const {
  for (const Cut& cut : compute.cuts) {
    if (cut.axes == partial_axes) return cut.copies;
  }
  const std::int64_t ranks = mesh.size(partial_axes);
  if (!compute.only || !has_axis(partial_axes, compute.only->axis)) return ranks;
  return ranks / mesh.size(compute.only->axis) * static_cast<std::int64_t>(compute.only->positions.size());
}

}  // namespace capstan::layout
