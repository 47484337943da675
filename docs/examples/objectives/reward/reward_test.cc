#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>

using namespace capstan;

namespace {

testing::Setting setting(int world, const std::string& tables) {
  return {.world = world,
          .config =
              "[model]\nplugin = \"llama\"\nhead_values = 1\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
              "ff_dim = 24\nseq_length = 24\n[data]\nsequences = 2\n"
              "meaning = \"a preferred answer and a rejected one\"\n[objective]\nplugin = \"reward\"\n" +
              tables,
          .steps = 6,
          .types = {testing::linked(*capstan_plugin())}};
}

}  // namespace

TEST_CASE("ranks that share samples or their tokens learn what one rank learns") {
  const auto alone = testing::train(setting(1, ""));
  CHECK(alone.gradients.at("score.weight").abs().max().item<double>() > 0);
  CHECK(testing::differences(testing::train(setting(3, "[strategy.fsdp]\n")), alone, 1e-10) == "");
  CHECK(testing::differences(testing::train(setting(2, "[strategy.context_parallel]\nsize = 2\n")), alone, 1e-10) ==
        "");
}

TEST_CASE("each option changes what is learned") {
  CHECK(testing::without_effect(setting(1, ""), {"objective.margin=0.5"}) == "");
}
