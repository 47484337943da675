#include <capstan/base/error.h>
#include <capstan/layout/layout.h>

#include <algorithm>
#include <set>

namespace capstan::layout {
namespace {

std::set<Axis> cut_axes(const Layout& layout) {
  std::set<Axis> axes;
  for (const auto& cut : layout.cuts) {
    for (const Axis axis : cut.axes) CAPSTAN_ASSERT(axes.insert(axis).second);
  }
  return axes;
}

}  // namespace

bool Layout::holds(const Mesh& mesh, int rank) const {
  if (!only) return true;
  const auto position = mesh.coordinate(rank, only->axis);
  return std::find(only->positions.begin(), only->positions.end(), position) != only->positions.end();
}

Box Layout::box(const Shape& shape, const Mesh& mesh, int rank) const {
  cut_axes(*this);
  if (!holds(mesh, rank)) return {Shape(shape.size(), 0), Shape(shape.size(), 0)};
  Box out = Box::whole(shape);
  for (const auto& cut : cuts) {
    CAPSTAN_ASSERT(cut.dim >= 0 && cut.dim < static_cast<std::int64_t>(shape.size()));
    const auto d = static_cast<std::size_t>(cut.dim);
    const std::int64_t n = out.size[d];
    CAPSTAN_ASSERT(cut.copies >= 1 && mesh.size(cut.axes) % cut.copies == 0);
    const std::int64_t parts = mesh.size(cut.axes) / cut.copies;
    const std::int64_t chunk = (n + parts - 1) / parts;
    const std::int64_t begin = std::min(mesh.position(rank, cut.axes) / cut.copies * chunk, n);
    out.offset[d] += begin;
    out.size[d] = std::min(begin + chunk, n) - begin;
  }
  return out;
}

bool Layout::counts(const Mesh& mesh, int rank) const {
  const auto cut = cut_axes(*this);
  const auto is_first = [&](const Cut& c) { return mesh.position(rank, c.axes) % c.copies == 0; };
  if (!std::all_of(cuts.begin(), cuts.end(), is_first)) return false;
  return std::all_of(all_axes.begin(), all_axes.end(), [&](Axis axis) {
    const bool is_only = only && only->axis == axis;
    return cut.contains(axis) || mesh.coordinate(rank, axis) == (is_only ? only->positions.front() : 0);
  });
}

Layout Layout::with(Cut cut) const {
  Layout out = *this;
  out.cuts.push_back(std::move(cut));
  return out;
}

}  // namespace capstan::layout
