#include <capstan/layout/param.h>
#include <capstan_catch.h>

#include <vector>

namespace param_test {

using namespace capstan::layout;

TEST_CASE("a record's defaults") {
  Param param;
  param.shape = {3, 5};
  CHECK(param.numel() == 15);
  CHECK(param.data_axes == std::vector<Axis>{Axis::replicate, Axis::dp, Axis::cp, Axis::ep});
}

TEST_CASE("a record is sharded over its data axes, but for copies and for axes that keep gradients local") {
  Param param;
  CHECK(param.shard_axes() == std::vector<Axis>{Axis::dp, Axis::cp, Axis::ep});
  param.local_axes = {Axis::dp};
  CHECK(param.shard_axes() == std::vector<Axis>{Axis::cp, Axis::ep});
  param.data_axes = {Axis::replicate, Axis::dp};
  CHECK(param.shard_axes().empty());
}

TEST_CASE("a record is sharded in the first dimension whose local rows divide evenly, else in the last") {
  Param param;
  param.shape = {6, 5, 4};
  param.shard_dims = {0, 1, 2};
  const auto dim = [&](const Mesh& mesh) { return param.sharded(mesh).cuts.back().dim; };
  CHECK(dim(Mesh({{Axis::dp, 3}})) == 0);
  CHECK(dim(Mesh({{Axis::dp, 5}})) == 1);
  CHECK(dim(Mesh({{Axis::dp, 4}})) == 2);
  CHECK(dim(Mesh({{Axis::dp, 7}})) == 2);
  param.compute = Layout{}.with({0, {Axis::tp}});
  CHECK(dim(Mesh({{Axis::dp, 3}, {Axis::tp, 2}})) == 0);  // 3 of the 6 rows
  CHECK(dim(Mesh({{Axis::dp, 2}, {Axis::tp, 2}})) == 2);
  CHECK(param.sharded(Mesh({{Axis::dp, 2}, {Axis::tp, 2}})).cuts.front() == Cut{0, {Axis::tp}});
}

TEST_CASE("a record that only some positions hold is sharded alike on all of them, and summed over those") {
  const Mesh mesh({{Axis::pp, 3}, {Axis::dp, 2}});
  Param param;
  param.shape = {6, 4};
  param.compute.only = {Axis::pp, {1, 2}};
  param.partial_axes = {Axis::pp};
  CHECK(param.partial_ranks(mesh) == 2);
  const auto sharded = param.sharded(mesh);
  CHECK(sharded.box(param.shape, mesh, 0).empty());
  CHECK(sharded.box(param.shape, mesh, 2) == Box{{0, 0}, {3, 4}});
  CHECK(sharded.box(param.shape, mesh, 5) == Box{{3, 0}, {3, 4}});
}

}  // namespace param_test
