#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>

using namespace capstan;

namespace {

testing::TrainResult run(int world, const std::string& tables, const std::string& alpha = "0.5") {
  return testing::train({.world = world,
                         .config = "[objective]\nplugin = \"unlikelihood\"\nalpha = " + alpha +
                                   "\n[data]\nfields = [\"good float32 sequence\"]\n" + tables,
                         .types = {testing::linked(*capstan_plugin())}});
}

}  // namespace

TEST_CASE("ranks that share samples or their tokens, or pack them, learn what one rank learns") {
  const auto alone = run(1, "");
  CHECK(testing::differences(run(3, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(2, "packing = true\n"), alone, 1e-10) == "");
  // The built-in model has no layer of attention, whose tokens ranks could share.
  const std::string gpt =
      "[model]\nplugin = \"gpt\"\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nseq_length = 24\n";
  const auto gpt_alone = run(1, gpt);
  CHECK(testing::differences(run(2, gpt + "[strategy.context_parallel]\nsize = 2\n"), gpt_alone, 1e-10) == "");
  CHECK(testing::differences(run(2, gpt + "[strategy.tensor_parallel]\nsize = 2\n"), gpt_alone, 1e-10) == "");
}

TEST_CASE("the weight of bad samples changes what is learnt") {
  CHECK(testing::differences(run(1, "", "0.25"), run(1, ""), 1e-3) != "");
}
