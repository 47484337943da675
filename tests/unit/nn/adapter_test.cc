#include <capstan/nn/adapter.h>
#include <capstan_catch.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

namespace adapter_test {

using namespace capstan;
using layout::Axis;

namespace {

nn::WeightPtr weight(const std::vector<layout::Shape>& shapes) {
  std::vector<layout::Param> records;
  for (const auto& shape : shapes) records.push_back(nn::record("w", shape, layout::Init::zeros(), true));
  return std::make_shared<nn::Weight>(std::move(records));
}

/// An adapter of rank 2 for a matrix [8, 6].
nn::Adapter thin() {
  nn::Adapter adapter;
  adapter.base = weight({{8, 6}});
  adapter.parts = {0};
  adapter.down = weight({{2, 6}});
  adapter.up = weight({{8, 2}});
  adapter.rank = 2;
  adapter.alpha = 6;
  return adapter;
}

layout::Layout cut(std::int64_t dim, Axis axis) { return layout::Layout{}.with({dim, {axis}}); }

}  // namespace

TEST_CASE("an adapter's scale is alpha by its rank, or by the rank's root") {
  auto adapter = thin();
  CHECK(adapter.scale() == 3);
  adapter.rank_stabilised = true;
  CHECK(adapter.scale() == Approx(6 / std::sqrt(2.0)));
}

TEST_CASE("an adapter lies as its base does by now: one matrix is cut, the other's gradient is a part of a sum") {
  const auto adapter = thin();
  auto& base = adapter.base->records().front();
  const auto& down = adapter.down->records().front();
  const auto& up = adapter.up->records().front();
  base.compute = cut(0, Axis::tp);
  nn::place_like_base(adapter);
  CHECK(up.compute == cut(0, Axis::tp));
  CHECK(up.partial_axes.empty());
  CHECK(down.compute == layout::Layout{});
  CHECK(down.partial_axes == std::vector<Axis>{Axis::tp});
  base.compute = cut(1, Axis::tp);
  nn::place_like_base(adapter);
  CHECK(up.compute == layout::Layout{});
  CHECK(up.partial_axes == std::vector<Axis>{Axis::tp});
  CHECK(down.compute == cut(1, Axis::tp));
  CHECK(down.partial_axes.empty());
  base.compute = {};
  base.partial_axes = {Axis::tp};  // as under sequence parallelism
  nn::place_like_base(adapter);
  CHECK(up.partial_axes == std::vector<Axis>{Axis::tp});
  CHECK(down.partial_axes == std::vector<Axis>{Axis::tp});
}

TEST_CASE("a cut of stacked matrices holds for both of an adapter's, and so do the base's data axes") {
  nn::Adapter adapter;
  adapter.base = weight({{4, 8, 6}});
  adapter.parts = {0};
  adapter.down = weight({{4, 2, 6}});
  adapter.up = weight({{4, 8, 2}});
  adapter.stacked = 1;
  auto& base = adapter.base->records().front();
  base.compute = cut(0, Axis::ep);
  base.data_axes = {Axis::replicate, Axis::dp};
  nn::place_like_base(adapter);
  for (const auto* one : {&adapter.down->records().front(), &adapter.up->records().front()}) {
    CHECK(one->compute == cut(0, Axis::ep));
    CHECK(one->data_axes == base.data_axes);
    CHECK(one->partial_axes.empty());
  }
}

TEST_CASE("parts of a fused base that do not share their input are a bug") {
  auto adapter = thin();
  adapter.base = weight({{8, 6}, {4, 6}});
  adapter.parts = {0, 1};
  adapter.up = weight({{8, 2}, {4, 2}});
  CHECK_NOTHROW(nn::place_like_base(adapter));
  adapter.base->records()[1].compute = cut(1, Axis::tp);
  CHECK_THROWS_AS(nn::place_like_base(adapter), std::logic_error);
}

}  // namespace adapter_test
