#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>

using namespace capstan;

namespace {

const std::string sgd = "[optimizer]\nplugin = \"sgd\"\nmomentum = 0.9\n";

}  // namespace

TEST_CASE("another optimizer: the same on any layout, and not AdamW") {
  const auto run = [](int world, const std::string& optimizer, const std::string& tables = "") {
    return testing::train({.world = world,
                           .config = optimizer + "lr = 0.1\nschedule = \"constant\"\nwarmup_steps = 0\n" + tables,
                           .types = {testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, sgd);
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(testing::differences(run(3, sgd, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(2, sgd, "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"), alone, 1e-10) ==
        "");
  CHECK(testing::differences(run(1, "[optimizer]\n"), alone, 1e-3) != "");
}

TEST_CASE("a group of parameters may have it while AdamW updates the others") {
  const auto run = [](int world, const std::string& tables) {
    return testing::train({.world = world,
                           .config = "[[optimizer.groups]]\nrecords = [\"*.bias\"]\nplugin = \"sgd\"\nmomentum = 0.9\n"
                                     "lr_factor = 10.0\n" +
                                     tables,
                           .types = {testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, "");
  CHECK(testing::differences(run(3, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::weight_distance(testing::train({}), alone) > 1e-6);
}

TEST_CASE("a run resumes with the optimizer that it was saved with, and no other") {
  const testing::Setting with_sgd{.world = 2,
                                  .config = sgd,
                                  .overrides = {"run.deterministic=true"},
                                  .types = {testing::linked(*capstan_plugin())}};
  CHECK(testing::differences(testing::train_resumed(with_sgd, 7, with_sgd), testing::train(with_sgd), 0) == "");
  auto with_adamw = with_sgd;
  with_adamw.config = "";
  CHECK_THROWS_WITH(testing::train_resumed(with_adamw, 7, with_sgd),
                    Contains("optimizer.plugin is \"sgd\", but \"adamw\" in the checkpoint"));
  auto accepted = with_sgd;  // the optimizer is accepted; its states are still not in the checkpoint
  accepted.overrides.emplace_back("checkpoint.accept=[\"optimizer.plugin\"]");
  CHECK_THROWS_WITH(testing::train_resumed(with_adamw, 7, accepted),
                    Contains("it has no 'optimizer/velocity', which the optimizer of this run keeps") &&
                        Contains("it has 'optimizer/exp_avg', which the optimizer of this run does not keep"));
}
