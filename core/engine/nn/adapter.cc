#include <capstan/base/error.h>
#include <capstan/nn/adapter.h>

#include <algorithm>
#include <cmath>

namespace capstan::nn {
namespace {

void add_axes(std::vector<layout::Axis>& list, const std::vector<layout::Axis>& axes) {
  for (const auto axis : axes) {
    if (std::find(list.begin(), list.end(), axis) == list.end()) list.push_back(axis);
  }
}

}  // namespace

double Adapter::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rank_stabilised ? std::sqrt(r) : r);
}

void place_like_base(const Adapter& adapter) {
  auto& down = adapter.down->records().front();
  down.compute = {};
  down.partial_axes.clear();
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const auto& base = adapter.base->records()[adapter.parts[i]];
    auto& up = adapter.up->records()[i];
    up.compute = {};
    up.partial_axes.clear();
    up.data_axes = down.data_axes = base.data_axes;
    add_axes(up.partial_axes, base.partial_axes);
    add_axes(down.partial_axes, base.partial_axes);
    layout::Layout of_down;
    const auto last = static_cast<std::int64_t>(base.shape.size()) - 1;
    for (const auto& cut : base.compute.cuts) {
      if (cut.dim < static_cast<std::int64_t>(adapter.stacked)) {
        up.compute = up.compute.with(cut);
        of_down = of_down.with(cut);
      } else if (cut.dim == last) {
        auto columns = cut;
        columns.dim = static_cast<std::int64_t>(down.shape.size()) - 1;
        of_down = of_down.with(columns);
        add_axes(up.partial_axes, cut.axes);
      } else {
        up.compute = up.compute.with(cut);
        add_axes(down.partial_axes, cut.axes);
      }
    }
    CAPSTAN_ASSERT(i == 0 || of_down == down.compute);  // parts share their input
    down.compute = of_down;
  }
}

}  // namespace capstan::nn
