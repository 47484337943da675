#include <capstan/base/error.h>
#include <capstan/layout/layout.h>
#include <capstan/layout/param.h>
#include <capstan_catch.h>

#include <random>

namespace layout_test {

using namespace capstan;
using namespace capstan::layout;

namespace {

// Flat indices of the box's elements in a tensor of this shape.
std::vector<std::size_t> elements(const Box& box, const Shape& shape) {
  std::vector<std::size_t> out;
  for (std::int64_t i = 0; i < box.numel(); ++i) {
    std::int64_t rest = i;
    std::int64_t flat = 0;
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      flat += (box.offset[d] + rest % box.size[d]) * stride;
      rest /= box.size[d];
      stride *= shape[d];
    }
    out.push_back(static_cast<std::size_t>(flat));
  }
  return out;
}

}  // namespace

TEST_CASE("boxes: elements, text, intersection") {
  const Box a{{0, 2}, {4, 3}};
  CHECK(a.numel() == 12);
  CHECK(a.text() == "[0:4, 2:5]");
  CHECK(intersect(a, {{3, 0}, {9, 3}}) == Box{{3, 2}, {1, 1}});
  CHECK(intersect(a, {{4, 0}, {1, 9}}).empty());
  CHECK(Box::whole({}).numel() == 1);
  CHECK(a.fits({4, 5}));
  CHECK_FALSE(a.fits({4, 4}));
  CHECK_FALSE(a.fits({4, 5, 1}));
  CHECK(shape_text({2, 3}) == "[2, 3]");
}

TEST_CASE("a cut follows torch.chunk: the last ranks hold less, or nothing") {
  const Mesh mesh({{Axis::dp, 4}});
  const Layout layout{{Cut{0, {Axis::dp}}}};
  const auto sizes = [&](std::int64_t n) {
    std::vector<std::int64_t> out;
    for (int rank = 0; rank < 4; ++rank) out.push_back(layout.box({n, 2}, mesh, rank).size[0]);
    return out;
  };
  CHECK(sizes(8) == std::vector<std::int64_t>{2, 2, 2, 2});
  CHECK(sizes(7) == std::vector<std::int64_t>{2, 2, 2, 1});
  CHECK(sizes(5) == std::vector<std::int64_t>{2, 2, 1, 0});
  CHECK(sizes(1) == std::vector<std::int64_t>{1, 0, 0, 0});
  CHECK(layout.box({5, 2}, mesh, 3).empty());
  CHECK(layout.box({5, 2}, mesh, 2) == Box{{4, 0}, {1, 2}});
}

TEST_CASE("a later cut of the same dimension cuts what the earlier one left") {
  const Mesh mesh({{Axis::dp, 2}, {Axis::tp, 2}});
  const Layout layout = Layout{{Cut{0, {Axis::tp}}}}.with({0, {Axis::dp}});
  // 10 rows: tp halves them (0:5, 5:10), dp cuts each half in 3 and 2.
  CHECK(layout.box({10}, mesh, 0) == Box{{0}, {3}});
  CHECK(layout.box({10}, mesh, 1) == Box{{5}, {3}});
  CHECK(layout.box({10}, mesh, 2) == Box{{3}, {2}});
  CHECK(layout.box({10}, mesh, 3) == Box{{8}, {2}});
}

TEST_CASE("on random shapes, meshes and cuts the counting ranks hold each element exactly once") {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 400; ++round) {
    const Mesh mesh({{Axis::pp, draw(1, 2)}, {Axis::dp, draw(1, 4)}, {Axis::ep, draw(1, 3)}, {Axis::tp, draw(1, 3)}});
    Shape shape;
    for (int d = draw(1, 3); d > 0; --d) shape.push_back(draw(1, 9));
    std::vector<Axis> free(all_axes.begin(), all_axes.end());
    std::shuffle(free.begin(), free.end(), random);
    Layout layout;
    int holders = 1;  // on the axis on which only some positions hold it
    if (draw(0, 1) == 1) {
      const auto axis = free.back();
      free.pop_back();
      layout.only = {axis, {}};
      for (int position = 0; position < mesh.size(axis); ++position) {
        if (draw(0, 1) == 1 || position + 1 == mesh.size(axis)) layout.only->positions.push_back(position);
      }
      holders = static_cast<int>(layout.only->positions.size());
    }
    while (!free.empty() && draw(0, 2) > 0) {
      Cut cut{draw(0, static_cast<int>(shape.size()) - 1), {}};
      for (int n = draw(1, static_cast<int>(free.size())); n > 0; --n) {
        cut.axes.push_back(free.back());
        free.pop_back();
      }
      layout.cuts.push_back(cut);
    }
    std::vector<int> counted(static_cast<std::size_t>(numel(shape)), 0);
    std::vector<int> held(counted.size(), 0);
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const auto box = layout.box(shape, mesh, rank);
      REQUIRE(box.fits(shape));
      if (!layout.holds(mesh, rank)) REQUIRE(box.empty());
      for (const auto i : elements(box, shape)) {
        ++held[i];
        if (layout.counts(mesh, rank)) ++counted[i];
      }
    }
    // Axes without a cut are copies.
    const std::vector<int> once(counted.size(), 1);
    const std::vector<int> copies(counted.size(), mesh.size(free) * holders);
    REQUIRE(counted == once);
    REQUIRE(held == copies);
  }
}

TEST_CASE("an axis that cuts twice is a bug") {
  const Layout layout{{Cut{0, {Axis::dp}}, Cut{1, {Axis::dp}}}};
  CHECK_THROWS_AS(layout.box({4, 4}, Mesh({{Axis::dp, 2}}), 0), std::logic_error);
}

TEST_CASE("a cut in fewer parts than ranks: neighbours hold the same, and the first of them counts") {
  const Mesh mesh({{Axis::dp, 2}, {Axis::tp, 4}});
  const Layout layout{{Cut{0, {Axis::tp}, 2}}};
  Param record;
  record.compute = layout;
  record.partial_axes = {Axis::tp};
  CHECK(record.partial_ranks(mesh) == 2);
  std::vector<std::int64_t> begins;
  std::vector<bool> counts;
  for (int rank = 0; rank < 8; ++rank) {
    begins.push_back(layout.box({6, 2}, mesh, rank).offset[0]);
    counts.push_back(layout.counts(mesh, rank));
    CHECK(layout.box({6, 2}, mesh, rank).size == Shape{3, 2});
  }
  CHECK(begins == std::vector<std::int64_t>{0, 0, 3, 3, 0, 0, 3, 3});
  CHECK(counts == std::vector<bool>{true, false, true, false, false, false, false, false});
  record.compute = {};
  CHECK(record.partial_ranks(mesh) == 4);
}

}  // namespace layout_test
