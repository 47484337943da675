#include "job/topology.h"

#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/folder.h"
#include "testing/tiny.h"

namespace topology_test {

using namespace capstan;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

int meshes = 0;
std::vector<strategy::Facts> checked;

// Remembers what it was asked.
class Asked : public strategy::Strategy {
 public:
  explicit Asked(const config::Options<NoOptions>&) {}
  void mesh(layout::MeshSpec&) override { ++meshes; }
  void check(const strategy::Facts& facts, Diagnostics&) const override { checked.push_back(facts); }
};

plugin::Host& host() {
  static plugin::Host host;
  static const bool once = [] {
    host.add(testing::tiny_model());
    host.add(testing::tiny_data());
    host.add(testing::type<strategy::Strategy, Asked, NoOptions>("strategy", "asked"));
    return true;
  }();
  CHECK(once);
  return host;
}

struct Made {
  setup::Configuration config;
  job::Plugins plugins;
  job::Topology topology;
  std::size_t faults = 0;
};

// Makes the stage on two ranks.
Made made(const std::string& train, setup::JobRequest request = {}) {
  const test::Folder folder;
  request.file = folder.write("a.toml",
                              "[model]\nplugin = \"tiny\"\n[data]\nplugin = \"tiny\"\n[strategy.asked]\n"
                              "[train]\nmax_steps = 2\n" +
                                  train);
  request.world_size = 2;
  meshes = 0;
  checked.clear();
  Diagnostics faults;
  auto config = setup::read_configuration(request, faults, &host());
  auto plugins = job::load_plugins(config, job::Needs::all, host(), faults);
  faults.throw_if_any();
  auto topology = job::make_topology(config, plugins, faults);
  return {std::move(config), std::move(plugins), std::move(topology), faults.size()};
}

}  // namespace

TEST_CASE("strategies check the sizes that the run will have") {
  setup::JobRequest request;
  request.rank = 1;
  request.gpu_capability = 90;
  const auto out = made("micro_batch = 3\naccumulation = 2\nprecision = \"fp32\"\n", request);
  REQUIRE(out.faults == 0);
  REQUIRE(checked.size() == 1);
  const auto& facts = checked.front();
  CHECK(facts.mesh.world_size() == 2);
  CHECK(facts.rank == 1);
  CHECK(facts.micro_batch == 3);
  CHECK(facts.accumulation == 2);
  CHECK(facts.precision == "fp32");
  CHECK(facts.device == "cpu");
  CHECK(facts.gpu_capability == 0);  // whose GPUs the run does not use
  CHECK(facts.sequence_length == 0);
  CHECK(facts.ranks_per_node == 2);  // all, where no launcher says how many
}

TEST_CASE("a GPU's capability counts on GPUs, and ranks of a node as they were told") {
  setup::JobRequest request;
  request.device = "cuda";
  request.gpu_capability = 90;
  request.ranks_per_node = 1;
  (void)made("micro_batch = 1\n", request);
  REQUIRE(checked.size() == 1);
  CHECK(checked.front().gpu_capability == 90);
  CHECK(checked.front().ranks_per_node == 1);
}

TEST_CASE("strategies are not asked about sizes that are wrong already") {
  const auto out = made("micro_batch = 2\naccumulation = 2\nglobal_batch = 5\n");
  CHECK(out.faults == 1);
  CHECK(checked.empty());
}

TEST_CASE("a command that does not train has batches of train.eval_batch, whatever training has") {
  setup::JobRequest request;
  request.purpose = setup::Purpose::evaluate;
  const auto out = made("micro_batch = 2\naccumulation = 2\nglobal_batch = 5\neval_batch = 7\n", request);
  CHECK(out.faults == 0);
  CHECK(out.topology.batch.micro_batch == 7);
  CHECK(out.topology.batch.accumulation == 1);
  CHECK(out.topology.batch.global_batch == 14);
}

TEST_CASE("strategies for another model are other objects, which were asked as the first were") {
  const auto out = made("micro_batch = 1\n");
  CHECK(meshes == 1);
  const auto fresh = job::fresh_strategies(out.plugins.strategies, out.topology);
  REQUIRE(fresh.size() == 1);
  CHECK(fresh.front().object != out.plugins.strategies.front().object);
  CHECK(fresh.front().name == "asked");
  CHECK(meshes == 2);
}

TEST_CASE("[train] is settled with the sizes that were derived") {
  const auto out = made("micro_batch = 3\naccumulation = 2\n");
  const auto train = job::settled(out.config.train, out.topology.batch);
  CHECK(train->global_batch == 12);
  CHECK(train->micro_batch == 3);
}

}  // namespace topology_test
