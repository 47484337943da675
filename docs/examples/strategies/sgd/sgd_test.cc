#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace capstan;

TEST_CASE("another optimizer rule: the same on any layout, and not AdamW") {
  const auto run = [](int world, const std::string& tables) {
    return testing::train({.world = world,
                           .config = "[optimizer]\nlr = 0.1\nschedule = \"constant\"\nwarmup_steps = 0\n" + tables,
                           .types = {testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, "[strategy.sgd]\nmomentum = 0.9\n");
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(testing::differences(run(3, "[strategy.sgd]\nmomentum = 0.9\n[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(2,
                                 "[strategy.sgd]\nmomentum = 0.9\n[strategy.zero]\nstage = 2\n"
                                 "offload_optimizer = \"cpu\"\n"),
                             alone, 1e-10) == "");
  CHECK(testing::differences(run(1, ""), alone, 1e-3) != "");
  CHECK_THROWS_WITH(run(1, "[strategy.sgd]\n[strategy.descent]\n"),
                    Contains("optimizer rule") && Contains("sgd") && Contains("descent"));
}

TEST_CASE("a run resumes with the rule that it was saved with, and no other") {
  const testing::Setting with_sgd{.world = 2,
                                  .config = "[strategy.sgd]\nmomentum = 0.9\n",
                                  .overrides = {"run.deterministic=true"},
                                  .types = {testing::linked(*capstan_plugin())}};
  CHECK(testing::differences(testing::train_resumed(with_sgd, 7, with_sgd), testing::train(with_sgd), 0) == "");
  auto with_adamw = with_sgd;
  with_adamw.config = "";
  CHECK_THROWS_WITH(testing::train_resumed(with_adamw, 7, with_sgd),
                    Contains("strategy.sgd is there, but not there in the checkpoint"));
  auto accepted = with_sgd;  // the strategy is accepted; its states are still not in the checkpoint
  accepted.overrides.emplace_back("checkpoint.accept=[\"strategy.sgd\"]");
  CHECK_THROWS_WITH(testing::train_resumed(with_adamw, 7, accepted),
                    Contains("it has no 'optimizer/velocity', which the optimizer of this run keeps") &&
                        Contains("it has 'optimizer/exp_avg', which the optimizer of this run does not keep"));
}
