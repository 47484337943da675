// Packed rows teach what samples in rows of their own teach, in every family, on any layout and under recompute.
#include <capstan_catch.h>
#include <capstan_places.h>

#include "checkpoint/scratch.h"
#include "support/families.h"
#include "support/small_run.h"

namespace packing_test {

using namespace capstan;
using capstan::testing::Family;
using capstan::testing::SmallRun;

namespace {

// float64 sums in another order differ by some 1e-16 per operation; AdamW amplifies that. 1e-10 is what the project
// promises.
constexpr double tolerance = 1e-10;

// 50 questions of some 140 bytes, 6 at once. Three of the 6 share a row of 450.
std::string config_of(const Scratch& scratch, const Family& family, const std::string& more = {}) {
  return scratch.write("a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" + testing::family_config(family, 460) +
                                     family.dropout +
                                     "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                                     "/configs/data/mini_squad_train.json\"\ntrain_samples = 50\nmax_length = 451\n"
                                     "[train]\nmax_steps = 3\nglobal_batch = 12\nmicro_batch = 6\nprecision = "
                                     "\"fp64\"\n[optimizer]\nlr = 1e-2\nwarmup_steps = 1\nclip = 1.0\n" +
                                     more);
}

SmallRun run(const Family& family, bool packing, int world = 1, const std::string& more = {},
             const std::string& precision = "fp64") {
  at::set_num_threads(1);
  const Scratch scratch;
  const auto file = config_of(scratch, family, more);
  const std::vector<std::string> overrides{std::string("data.packing=") + (packing ? "true" : "false"),
                                           "train.precision=" + precision};
  SmallRun result;
  testing::Collected collected(result);
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, overrides, world, communicator.world().rank);
    testing::run_rank(job, communicator, 3, collected);
  });
  return result;
}

}  // namespace

TEST_CASE("float64: packed rows give the losses and gradients of samples in rows of their own",
          "[matrix][train][data]") {
  for (const auto& family : testing::odd_families()) {
    const auto reference = run(family, false);
    REQUIRE(reference.losses.back() < reference.losses.front());
    const std::vector<std::pair<int, std::string>> layouts{
        {1, ""},
        {1, "[strategy.recompute]\nevery = 1\n"},
        {2, "[strategy.fsdp]\nmode = \"full_shard\"\n[strategy.recompute]\nregions = [\"attention\"]\n"}};
    for (const auto& [world, more] : layouts) {
      INFO(family.plugin << ", world " << world << "\n" << more);
      // A mixture's balancing loss is over a micro-step of all ranks: compared with as many.
      const bool alike = world == 1 || family.plugin != "mixtral";
      CHECK(testing::differences(run(family, true, world, more), alike ? reference : run(family, false, world),
                                 tolerance) == "");
    }
  }
}

TEST_CASE("float64: what is dropped before experts' adapters is each sample's own, packed or not",
          "[matrix][train][data]") {
  const auto& family = testing::odd_families().back();
  const std::string adapters = "[strategy.lora]\nrank = 2\ninit = \"random\"\ndropout = 0.3\ntargets = [\"experts\"]\n";
  const auto reference = run(family, false, 1, adapters);
  CHECK(testing::differences(run(family, true, 1, adapters), reference, tolerance) == "");
  const std::string nothing = "[strategy.lora]\nrank = 2\ninit = \"random\"\ntargets = [\"experts\"]\n";
  CHECK(run(family, false, 1, nothing).losses.front() != reference.losses.front());
}

TEST_CASE("float32: the packed loss is the unpacked one to 1e-5") {
  for (const auto& family : testing::odd_families()) {
    INFO(family.plugin);
    const auto packed = run(family, true, 1, "", "fp32"), apart = run(family, false, 1, "", "fp32");
    REQUIRE(packed.losses.size() == 3);
    for (std::size_t s = 0; s < 3; ++s) CHECK(std::abs(packed.losses[s] - apart.losses[s]) <= 1e-5 * apart.losses[s]);
  }
}

TEST_CASE("packing computes fewer positions, and counts the same samples and targets") {
  const Scratch scratch;
  const auto file = config_of(scratch, testing::odd_families().front());
  step::StepInput inputs[2];
  for (const bool packing : {false, true}) {
    const auto job = testing::prepare_small(file, {std::string("data.packing=") + (packing ? "true" : "false")}, 1, 0);
    inputs[packing ? 1 : 0] = step::Feed(job).draw(1);
  }
  const auto& apart = inputs[0];
  const auto& packed = inputs[1];
  CHECK(packed.samples == apart.samples);
  CHECK(packed.target_tokens == apart.target_tokens);
  CHECK(packed.real_tokens == apart.real_tokens);
  CHECK(packed.padded_tokens < apart.padded_tokens);
  for (const auto& micro : packed.micro) {
    CHECK(micro.rows <= 3);
    CHECK(micro.cols <= 456);
    CHECK(micro.documents.size() == 6);
  }
}

}  // namespace packing_test
