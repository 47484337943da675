// Qwen 2's mixture, one of whose blocks has no experts, on ranks that share layers, positions, blocks, experts or
// parameters.
#include "support/family_ranks.h"

namespace qwen2_moe_ranks_test {

using namespace capstan::testing;

namespace {

const std::string sizes =
    "[model]\nplugin = \"qwen2_moe\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 22\ndense_layers = [0]\nshared_dim = 12\n"
    "num_experts = 4\nexperts_per_token = 2\nexpert_dim = 10\n";
const std::string model = sizes + "router_aux_loss = true\nrouter_aux_loss_coef = 0.3\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("qwen2_moe: Qwen 2's mixture on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("qwen2_moe: Qwen 2's mixture's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(sizes);
}

}  // namespace qwen2_moe_ranks_test
