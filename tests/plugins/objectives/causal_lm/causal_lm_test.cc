#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace capstan;

TEST_CASE("without a table, and with this plugin named, the same is learnt bit for bit") {
  const auto plain = testing::train({.steps = 5});
  const auto named = testing::train({.config = "[objective]\nplugin = \"causal_lm\"\n", .steps = 5});
  CHECK(testing::differences(named, plain, 0) == "");
}

TEST_CASE("each sequence of a sample bears loss, on any number of ranks") {
  const std::string pairs = "[data]\nsequences = 2\n";
  const auto alone = testing::train({.config = pairs, .steps = 5});
  CHECK(testing::differences(alone, testing::train({.steps = 5}), 1e-3) != "");
  CHECK(testing::differences(testing::train({.world = 3, .config = pairs, .steps = 5}), alone, 1e-10) == "");
}
