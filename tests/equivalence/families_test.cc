// Every model family on several layouts: sharding, ranks and recompute must not change what is learnt.
#include <capstan_catch.h>
#include <capstan_places.h>

#include "checkpoint/scratch.h"
#include "support/families.h"
#include "support/small_run.h"

namespace families_test {

using namespace capstan;
using capstan::testing::distance;
using capstan::testing::Family;
using capstan::testing::SmallRun;

namespace {

// float64 sums in another order differ by some 1e-16 per operation; AdamW amplifies that. 1e-10 is what the project
// promises.
constexpr double tolerance = 1e-10;

// GPT-2 is what the other matrices train (small_run.h); gradients of its key biases are only rounding, which no
// relative tolerance fits.
std::vector<Family> families() {
  auto list = testing::odd_families();
  std::erase_if(list, [](const auto& family) { return family.plugin == "gpt"; });
  return list;
}

std::string config_of(const Family& family, const std::string& more) {
  const Scratch scratch;  // for a name that is free
  const auto file = std::filesystem::temp_directory_path() / (scratch.path().filename().string() + ".toml");
  std::ofstream(file) << "[run]\nseed = 3\ndevice = \"cpu\"\n"
                      << testing::family_config(family, 130)
                      << "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                         "/configs/data/mini_squad_train.json\"\ntrain_samples = 50\nmax_length = 97\n"
                         "[train]\nmax_steps = 5\nglobal_batch = 12\naccumulation = 2\nprecision = \"fp64\"\n"
                         "[optimizer]\nlr = 1e-2\nwarmup_steps = 1\nclip = 1.0\n"
                      << more;
  return file.string();
}

// A micro-step has the same samples on any number of ranks: the balancing loss is over all of them.
SmallRun run(const Family& family, int world, const std::string& more = {}) {
  at::set_num_threads(1);
  const auto file = config_of(family, more);
  SmallRun result;
  testing::Collected collected(result);
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, {}, world, communicator.world().rank);
    testing::run_rank(job, communicator, 5, collected);
  });
  std::filesystem::remove(file);
  // What is compared is there: every weight's gradient of the first step, and every step's loss and norm.
  CHECK_FALSE(result.gradients.empty());
  CHECK(result.gradients.size() == result.weights.size());
  CHECK(result.losses.size() == 5);
  CHECK(result.norms.size() == 5);
  return result;
}

void check_same(const SmallRun& one, const SmallRun& reference) {
  for (const auto& [name, gradient] : reference.gradients) {
    INFO(name);
    CHECK(gradient.abs().max().item<double>() > 0);
  }
  CHECK(testing::differences(one, reference, tolerance) == "");
}

void check_layouts(const Family& family, const std::vector<std::pair<int, std::string>>& layouts) {
  const auto reference = run(family, 1);
  REQUIRE(reference.losses.back() < reference.losses.front());
  for (const auto& [world, mode] : layouts) {
    INFO(family.plugin << ", world " << world << ", " << mode);
    check_same(run(family, world, "[strategy.fsdp]\nmode = \"" + mode + "\"\n"), reference);
  }
}

}  // namespace

TEST_CASE("float64: every family learns the same on two ranks and on three, sharded there or here", "[matrix][train]") {
  bool on_two = false;
  for (const auto& family : families()) {
    check_layouts(family, {{2, on_two ? "full_shard" : "no_shard"}, {3, on_two ? "no_shard" : "full_shard"}});
    on_two = !on_two;
  }
}

TEST_CASE("float64: every family learns the same on every layout", "[.][full][matrix][train]") {
  for (const auto& family : families())
    check_layouts(family, {{2, "full_shard"}, {2, "no_shard"}, {3, "full_shard"}, {3, "no_shard"}});
}

TEST_CASE("recomputing every unit gives the same gradients, those of the routers' loss too") {
  for (const auto& family : families()) {
    INFO(family.plugin);
    SmallRun runs[2];
    const auto file = config_of(family, "");
    for (const bool recompute : {false, true}) {
      comm::run_in_process(1, [&](comm::Communicator& communicator) {
        const auto job = testing::prepare_small(file, {}, 1, 0);
        auto session = step::materialise(job, communicator);
        for (std::size_t i = 0; recompute && i < session.units.size(); ++i) session.runner->set_recompute(i, true);
        step::Feed feed(job);
        const auto input = feed.draw(0);
        step::Step(session).gradients(input, input.counts);
        testing::Collected(runs[recompute ? 1 : 0]).gradients(session);
      });
    }
    std::filesystem::remove(file);
    CHECK(runs[0].gradients.size() == runs[1].gradients.size());
    // The same operations on the same numbers.
    for (const auto& [name, gradient] : runs[0].gradients) {
      INFO(name);
      CHECK(at::equal(runs[1].gradients.at(name), gradient));
    }
  }
}

// Far apart enough that a factor of the ranks or the micro-steps would show.
TEST_CASE("the routers' loss changes the gradients of a mixture's routers") {
  auto without = families().back();
  without.options += "experts_per_token = 2\n";
  without.options.replace(without.options.find("true"), 4, "false");
  const auto with_loss = run(families().back(), 1), plain = run(without, 1);
  CHECK(with_loss.losses.front() == plain.losses.front());  // what is reported is only the loss of tokens
  const std::string gate = "model.layers.0.block_sparse_moe.gate.weight";
  CHECK(distance(with_loss.gradients.at(gate), plain.gradients.at(gate)) > 1e-2);
}

}  // namespace families_test
