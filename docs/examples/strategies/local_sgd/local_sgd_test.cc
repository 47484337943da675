#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace capstan;

namespace {

testing::TrainResult run(int world, const std::string& tables, const std::string& rule = "plugin = \"descent\"\n") {
  return testing::train({.world = world,
                         .config = "[data]\nsamples = 24\nlength = 9\n[optimizer]\nlr = 0.05\nschedule = \"constant\"\n"
                                   "warmup_steps = 0\nclip = 0.0\n" +
                                   rule + tables,
                         .types = {testing::linked(*capstan_plugin())}});
}

}  // namespace

// Each rank's mean over as many tokens, one plain step, and the mean of the parameters: the same numbers as one step
// with the mean over all.
TEST_CASE("averaging after every step of plain descent is what one rank does") {
  const auto alone = run(1, "");
  for (const int world : {1, 2, 3, 4}) {
    const auto mine = run(world, "[strategy.local_sgd]\nevery = 1\n");
    INFO(world << " ranks");
    CHECK(testing::weight_distance(mine, alone) < 1e-12);
  }
}

TEST_CASE("between averages ranks go their own ways, and the last step ends in an average") {
  const auto alone = run(1, "");
  const auto mine = run(2, "[strategy.local_sgd]\nevery = 7\n");  // 20 steps: averages after 7, 14 and the last
  CHECK(testing::weight_distance(mine, alone) > 1e-6);
  CHECK(testing::weight_distance(mine, alone) < 0.1);
  CHECK(mine.losses.back() < mine.losses.front());
  for (const auto& [what, difference] : mine.disagreements) {
    INFO(what << " " << difference);
    CHECK_FALSE(what.starts_with("weight"));
  }
}

TEST_CASE("a run resumes from a checkpoint bit by bit, also where ranks are apart") {
  const testing::Setting setting{.world = 3,
                                 .config = "[strategy.local_sgd]\nevery = 4\n",
                                 .overrides = {"run.deterministic=true"},
                                 .types = {testing::linked(*capstan_plugin())}};
  const auto straight = testing::train(setting);
  for (const std::int64_t saved_after : {6, 8}) {
    INFO("saved after " << saved_after << " steps");
    auto resumed = testing::train_resumed(setting, saved_after, setting);
    // Gradients are each rank's own: whose gradients it gets is chance.
    resumed.disagreements.clear();
    resumed.gradients = straight.gradients;
    CHECK(testing::differences(resumed, straight, 0) == "");
  }
}

TEST_CASE("it is refused together with a strategy that shards parameters, both named") {
  CHECK_THROWS_WITH(run(2, "[strategy.local_sgd]\n[strategy.fsdp]\n"),
                    Contains("summed gradients on dp") && Contains("local_sgd") && Contains("fsdp"));
}
