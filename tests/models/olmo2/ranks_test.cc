// OLMo 2, whose norms of q and k are over the features of all heads, on ranks that share the heads: what one rank
// learns alone. The model has no line for it.
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace olmo2_ranks_test {

using namespace capstan;

TEST_CASE("olmo2: OLMo 2 on ranks learns what it learns on one rank, with and without adapters", "[matrix]") {
  const std::string olmo2 =
      "[model]\nplugin = \"olmo2\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = "
      "2\n"
      "ff_dim = 22\nseq_length = 24\ninit_std = 0.2\n";
  const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
  const std::string sequence = "sequence_parallel = true\n", fsdp = "[strategy.fsdp]\n";
  for (const auto& model : {olmo2, olmo2 + lora}) {
    const auto alone = testing::train({.config = model, .steps = 3});
    CHECK(alone.losses.back() < alone.losses.front());
    for (const auto& [world, strategies] :
         std::vector<std::pair<int, std::string>>{{2, "[strategy.tensor_parallel]\nsize = 2\n"},
                                                  {4, "[strategy.tensor_parallel]\nsize = 4\n" + sequence},
                                                  {4, "[strategy.tensor_parallel]\nsize = 2\n" + sequence + fsdp}}) {
      INFO(world << " ranks\n" << model << strategies);
      CHECK(testing::differences(testing::train({.world = world, .config = model + strategies, .steps = 3}), alone,
                                 1e-10) == "");
    }
  }
}

}  // namespace olmo2_ranks_test
