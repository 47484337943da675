#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>

using namespace capstan;

namespace {

// The gradients of keys' biases are rounding alone, which a smaller eps would make steps of.
testing::Setting setting(int world, const std::string& tables) {
  return {.world = world,
          .config = "[optimizer]\nplugin = \"adafactor\"\nlr = 0.02\nweight_decay = 0.1\neps = 1e-12\n" + tables,
          .overrides = {"run.deterministic=true"},
          .types = {testing::linked(*capstan_plugin())}};
}

}  // namespace

TEST_CASE("it learns the same however ranks share a matrix, of which none has all rows") {
  const auto alone = testing::train(setting(1, ""));
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto* tables : {"[strategy.fsdp]\n", "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"})
    CHECK(testing::differences(testing::train(setting(3, tables)), alone, 1e-10) == "");
}

TEST_CASE("a run resumes with the same bits, and on other ranks with the same averages") {
  const auto mine = setting(2, "[strategy.fsdp]\n");
  const auto whole = testing::train(mine);
  CHECK(testing::differences(testing::train_resumed(mine, 7, mine), whole, 0) == "");
  CHECK(testing::differences(testing::train_resumed(mine, 7, setting(3, "[strategy.fsdp]\n")), whole, 1e-10) == "");
}
