#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace capstan;

TEST_CASE("a layer's port: a factor of one changes nothing, another one does, and layouts agree") {
  const auto run = [](int world, const std::string& tables) {
    return testing::train({.world = world, .config = tables, .types = {testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, "");
  const std::string layer = "[strategy.output_scale]\nlayer = \"linear_fc2\"\n";
  // With a port filled the bias is added after the product instead of within it: other roundings.
  CHECK(testing::differences(run(1, layer), alone, 1e-10) == "");
  const auto scaled = run(1, layer + "factor = 0.5\n");
  CHECK(testing::differences(scaled, alone, 1e-3) != "");
  CHECK(testing::differences(run(3, layer + "factor = 0.5\n[strategy.fsdp]\n"), scaled, 1e-10) == "");
}
