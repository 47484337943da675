// GLM-4.7-Flash on ranks that share heads, positions, blocks, experts or parameters.
#include "support/family_ranks.h"

namespace glm4_moe_lite_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"glm4_moe_lite\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "query_rank = 9\nkey_rank = 7\nstill_dim = 5\nturned_dim = 4\nvalue_dim = 9\nff_dim = 22\nseq_length = 24\n"
    "init_std = 0.2\nnum_experts = 4\nexpert_dim = 10\nmlp_layer_types = [\"sparse\", \"dense\"]\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("glm4_moe_lite: GLM-4.7-Flash on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("glm4_moe_lite: GLM-4.7-Flash's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(model);
}

}  // namespace glm4_moe_lite_ranks_test
