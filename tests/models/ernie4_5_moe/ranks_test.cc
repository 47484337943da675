// ERNIE 4.5's mixtures on ranks that share layers, positions, blocks, experts or parameters.
#include "support/family_ranks.h"

namespace ernie4_5_moe_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"ernie4_5_moe\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 22\n"
    "head_dim = 6\nnum_experts = 4\nexpert_dim = 10\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";

}  // namespace

TEST_CASE("ernie4_5_moe: ERNIE 4.5 with experts on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("ernie4_5_moe: ERNIE 4.5 with experts's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(model);
}

}  // namespace ernie4_5_moe_ranks_test
