#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace capstan;

namespace {

// Tiny steps over the same 24 samples: gradients hardly change, so what rounding loses is the same in each step.
testing::TrainResult run(int world, const std::string& tables) {
  return testing::train({.world = world,
                         .config = "[data]\nsamples = 24\nlength = 9\n[optimizer]\nlr = 1e-6\nschedule = \"constant\"\n"
                                   "warmup_steps = 0\nclip = 0.0\nplugin = \"descent\"\n" +
                                   tables,
                         .types = {testing::linked(*capstan_plugin())}});
}

const std::string with_feedback = "[strategy.error_feedback]\n";
const std::string without = "[strategy.error_feedback]\nfeedback = false\n";

}  // namespace

TEST_CASE("sums in bfloat16 are rounded, and one rank has nothing to sum") {
  const auto alone = run(1, "");
  CHECK(testing::differences(run(1, with_feedback), alone, 0) == "");
  const auto mine = run(2, with_feedback);
  // Two roundings to 8 bits of mantissa, of parts and of their sum, and parts may be larger than the sum.
  CHECK(testing::differences(mine, alone, 0.05) == "");
  CHECK(testing::differences(mine, alone, 1e-6) != "");
}

TEST_CASE("feedback makes up for what rounding loses, whether gradients are replicated or sharded") {
  const auto alone = run(1, "");
  for (const std::string sharding : {"", "[strategy.fsdp]\n", "[strategy.zero]\nstage = 2\n"}) {
    const auto lost = testing::weight_distance(run(3, without + sharding), alone);
    const auto kept = testing::weight_distance(run(3, with_feedback + sharding), alone);
    INFO(sharding << " without feedback " << lost << ", with " << kept);
    CHECK(kept < lost / 2);
  }
}

TEST_CASE("what rounding lost is saved with a checkpoint") {
  for (const std::string sharding : {"", "[strategy.zero]\nstage = 2\n"}) {
    const testing::Setting setting{.world = 2,
                                   .config = with_feedback + sharding,
                                   .overrides = {"run.deterministic=true"},
                                   .types = {testing::linked(*capstan_plugin())}};
    INFO(sharding);
    CHECK(testing::differences(testing::train_resumed(setting, 7, setting), testing::train(setting), 0) == "");
  }
}
