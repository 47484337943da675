// OLMo 2, whose norms of q and k are over the features of all heads, on ranks that share heads, positions, blocks or
// parameters: what one rank learns alone. The model has no line for it.
#include "support/family_ranks.h"

namespace olmo2_ranks_test {

using namespace capstan::testing;

TEST_CASE("olmo2: OLMo 2 on ranks learns what it learns on one rank, with and without adapters", "[matrix]") {
  const std::string olmo2 =
      "[model]\nplugin = \"olmo2\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
      "num_kv_heads = 2\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\n";
  const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
  auto ways = family_ways();
  ways.insert(
      ways.end(),
      {{2, tensor_parallel(2, false)}, {4, tensor_parallel(4, true)}, {4, tensor_parallel(2, true) + full_shard}});
  learns_the_same(olmo2, ways);
  learns_the_same(olmo2 + lora, ways);
}

}  // namespace olmo2_ranks_test
