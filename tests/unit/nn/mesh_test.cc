#include <capstan/base/text.h>
#include <capstan/layout/mesh.h>
#include <capstan_catch.h>

#include <set>

namespace mesh_test {

using namespace capstan;
using namespace capstan::layout;

TEST_CASE("tp varies fastest, then ep, dp, pp") {
  const Mesh mesh({{Axis::dp, 2}, {Axis::ep, 2}, {Axis::tp, 2}});
  CHECK(mesh.world_size() == 8);
  CHECK(mesh.arithmetic() == "world 8 = dp 2 x ep 2 x tp 2");
  CHECK(mesh.coordinate(5, Axis::tp) == 1);
  CHECK(mesh.coordinate(5, Axis::ep) == 0);
  CHECK(mesh.coordinate(5, Axis::dp) == 1);
  CHECK(mesh.coordinate(5, Axis::pp) == 0);
  CHECK(mesh.ranks_along({Axis::tp}, 5) == std::vector<int>{4, 5});
  CHECK(mesh.ranks_along({Axis::ep}, 5) == std::vector<int>{5, 7});
  CHECK(mesh.ranks_along({Axis::dp}, 5) == std::vector<int>{1, 5});
  CHECK(mesh.ranks_along({Axis::dp, Axis::ep}, 5) == std::vector<int>{1, 3, 5, 7});
  CHECK(mesh.ranks_along({Axis::ep, Axis::dp}, 5) == std::vector<int>{1, 5, 3, 7});
  CHECK(mesh.ranks_along({}, 5) == std::vector<int>{5});
}

TEST_CASE("along any axes the groups split the world, and everyone stands at its position") {
  const Mesh mesh({{Axis::pp, 2}, {Axis::dp, 3}, {Axis::ep, 2}, {Axis::tp, 2}});
  for (int subset = 0; subset < 16; ++subset) {
    std::vector<Axis> axes;
    for (const Axis axis : all_axes) {
      if (subset >> static_cast<int>(axis) & 1) axes.push_back(axis);
    }
    std::set<std::vector<int>> groups;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const auto ranks = mesh.ranks_along(axes, rank);
      REQUIRE(static_cast<int>(ranks.size()) == mesh.size(axes));
      CHECK(ranks[static_cast<std::size_t>(mesh.position(rank, axes))] == rank);
      groups.insert(ranks);
    }
    std::multiset<int> covered;
    for (const auto& group : groups) covered.insert(group.begin(), group.end());
    std::multiset<int> world;
    for (int rank = 0; rank < mesh.world_size(); ++rank) world.insert(rank);
    CHECK(covered == world);
  }
}

TEST_CASE("dp is what is left over") {
  MeshSpec spec(8);
  Diagnostics diagnostics;
  CHECK(resolve(spec, diagnostics).arithmetic() == "world 8 = dp 8 x ep 1 x tp 1");
  spec.set(Axis::tp, 2, "strategy.tensor_parallel", "a.toml:3");
  spec.set(Axis::tp, 2, "strategy.sequence_parallel", "a.toml:5");
  spec.set(Axis::ep, 2, "strategy.expert_parallel", "a.toml:7");
  CHECK(resolve(spec, diagnostics).arithmetic() == "world 8 = dp 2 x ep 2 x tp 2");
  spec.set(Axis::dp, 2, "strategy.fsdp", "a.toml:9");
  CHECK(resolve(spec, diagnostics).arithmetic() == "world 8 = dp 2 x ep 2 x tp 2");
  CHECK(diagnostics.empty());
}

TEST_CASE("pp divides the world like the others; pp and cp are named where they are there") {
  MeshSpec spec(16);
  Diagnostics diagnostics;
  spec.set(Axis::pp, 2, "strategy.pipeline", "a.toml:3");
  CHECK(resolve(spec, diagnostics).arithmetic() == "world 16 = pp 2 x dp 8 x ep 1 x tp 1");
  CHECK(diagnostics.empty());
  const Mesh mesh({{Axis::pp, 2}, {Axis::dp, 2}, {Axis::cp, 4}});
  CHECK(mesh.arithmetic() == "world 16 = pp 2 x dp 2 x cp 4 x ep 1 x tp 1");
  // Ranks along cp see the same samples, and their gradients are parts of one sum.
  CHECK(mesh.size(sample_axes) == 2);
  CHECK(mesh.size(data_axes) == 8);
}

TEST_CASE(
    "the data-parallel size that a mesh explains is that of its sample axes, and no axis is named that is not there") {
  for (const auto& mesh : {Mesh({{Axis::ep, 2}}), Mesh({{Axis::dp, 2}, {Axis::ep, 2}, {Axis::tp, 2}}),
                           Mesh({{Axis::ep, 4}, {Axis::tp, 2}}), Mesh({{Axis::dp, 3}, {Axis::cp, 2}, {Axis::tp, 2}}),
                           Mesh({{Axis::dp, 3}, {Axis::cp, 2}, {Axis::ep, 2}})}) {
    INFO(mesh.arithmetic());
    CHECK_THAT(mesh.left_over(), Catch::Matchers::EndsWith(cat(" = ", mesh.size(sample_axes))));
    CHECK(mesh.arithmetic().find("pp") == std::string::npos);
  }
  CHECK(Mesh({{Axis::pp, 2}}).arithmetic() == "world 2 = pp 2 x dp 1 x ep 1 x tp 1");
}

TEST_CASE("where the model is split, what is left over goes to data parallelism, in words") {
  CHECK(Mesh({{Axis::dp, 8}}).left_over().empty());
  CHECK(Mesh({{Axis::dp, 2}, {Axis::ep, 4}}).left_over() ==
        "ep 4 ranks hold the model once, and what is left over goes to data parallelism: dp = 8 / 4 = 2\n"
        "ranks that share experts have samples of their own: data-parallel size = dp 2 x ep 4 = 8");
  CHECK(Mesh({{Axis::dp, 4}, {Axis::tp, 2}}).left_over() ==
        "tp 2 ranks hold the model once, and what is left over goes to data parallelism: dp = 8 / 2 = 4");
  CHECK(Mesh({{Axis::dp, 2}, {Axis::ep, 2}, {Axis::tp, 2}}).left_over() ==
        "ep 2 x tp 2 = 4 ranks hold the model once, and what is left over goes to data parallelism: dp = 8 / 4 = 2\n"
        "ranks that share experts have samples of their own: data-parallel size = dp 2 x ep 2 = 4");
}

namespace {

std::vector<std::string> faults_of(const MeshSpec& spec) {
  Diagnostics diagnostics;
  CHECK(resolve(spec, diagnostics).world_size() == 1);
  std::vector<std::string> out;
  for (const auto& diagnostic : diagnostics.list()) out.push_back(diagnostic.text());
  return out;
}

}  // namespace

TEST_CASE("a mesh that cannot be is refused with its arithmetic") {
  SECTION("indivisible") {
    MeshSpec spec(6);
    spec.set(Axis::tp, 2, "strategy.tensor_parallel", "a.toml:3");
    spec.set(Axis::ep, 2, "strategy.expert_parallel", "");
    CHECK(faults_of(spec) ==
          std::vector<std::string>{"world 6 is no multiple of ep 2 x tp 2 = 4 (ep by strategy.expert_parallel, tp by "
                                   "strategy.tensor_parallel (a.toml:3))\n    fix: start 4 or 8 ranks, or change these "
                                   "sizes"});
  }
  SECTION("too small a world") {
    MeshSpec spec(2);
    spec.set(Axis::tp, 4, "strategy.tensor_parallel", "a.toml:3");
    CHECK(faults_of(spec) ==
          std::vector<std::string>{"world 2 is no multiple of tp 4 (tp by strategy.tensor_parallel (a.toml:3))\n    "
                                   "fix: start 4 ranks, or change these sizes"});
  }
  SECTION("a world that is smaller than one of the factors, or than all of them together") {
    for (const int world : {1, 2, 3}) {
      MeshSpec spec(world);
      spec.set(Axis::tp, 2, "strategy.tensor_parallel", "a.toml:3");
      spec.set(Axis::ep, 2, "strategy.expert_parallel", "a.toml:5");
      CHECK(faults_of(spec) ==
            std::vector<std::string>{cat("world ", world,
                                         " is no multiple of ep 2 x tp 2 = 4 (ep by strategy.expert_parallel "
                                         "(a.toml:5), tp by strategy.tensor_parallel (a.toml:3))\n    fix: start 4 "
                                         "ranks, or change these sizes")});
    }
  }
  SECTION("sizes whose product no number holds") {
    MeshSpec spec(8);
    spec.set(Axis::tp, 1LL << 32, "strategy.tensor_parallel", "a.toml:3");
    spec.set(Axis::ep, 1LL << 32, "strategy.expert_parallel", "a.toml:5");
    CHECK(faults_of(spec) ==
          std::vector<std::string>{"world 8 is no multiple of ep 4294967296 x tp 4294967296 (ep by "
                                   "strategy.expert_parallel (a.toml:5), tp by strategy.tensor_parallel (a.toml:3))\n"
                                   "    fix: change these sizes"});
  }
  SECTION("two sizes, and one below 1: both said at once") {
    MeshSpec spec(8);
    spec.set(Axis::tp, 2, "strategy.tensor_parallel", "a.toml:3");
    spec.set(Axis::tp, 4, "strategy.sequence_parallel", "a.toml:5");
    spec.set(Axis::ep, 0, "strategy.expert_parallel", "a.toml:7");
    CHECK(faults_of(spec) ==
          std::vector<std::string>{
              "a.toml:5: strategy.sequence_parallel asks for tp = 4, but strategy.tensor_parallel (a.toml:3) asks for "
              "2\n    fix: give both the same size",
              "a.toml:7: strategy.expert_parallel asks for ep = 0, below 1\n    fix: give a size of 1 or more"});
  }
  SECTION("a dp that is not what is left") {
    MeshSpec spec(8);
    spec.set(Axis::tp, 2, "strategy.tensor_parallel", "a.toml:3");
    spec.set(Axis::dp, 3, "strategy.fsdp", "a.toml:5");
    CHECK(faults_of(spec) == std::vector<std::string>{
                                 "a.toml:5: strategy.fsdp asks for dp = 3, but world 8 leaves dp = 4 next to tp 2\n    "
                                 "fix: start 6 ranks, or leave dp out"});
  }
}

TEST_CASE("ranks that share a sample's tokens hold the model as data ranks do") {
  MeshSpec spec(12);
  spec.set(Axis::cp, 3, "strategy.context_parallel", "a.toml:3");
  spec.set(Axis::tp, 2, "strategy.tensor_parallel", "a.toml:5");
  Diagnostics faults;
  const auto mesh = resolve(spec, faults);
  REQUIRE(faults.empty());
  CHECK(mesh.arithmetic() == "world 12 = dp 2 x cp 3 x ep 1 x tp 2");
  CHECK(mesh.size(sample_axes) == 2);
  CHECK(mesh.size(data_axes) == 6);
}

}  // namespace mesh_test
