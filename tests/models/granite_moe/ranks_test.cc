// Granite's mixtures, with a layer that computes every token, on ranks that share layers, positions, blocks, parameters
// or experts.
#include "support/family_ranks.h"

namespace granite_moe_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"granite_moe\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = "
    "4\nnum_kv_heads = 2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "model_type = \"granitemoeshared\"\nff_dim = 10\nshared_dim = 6\nnum_experts = 4\nembedding_multiplier = 3.0\n"
    "residual_multiplier = 0.22\nattention_multiplier = 0.2\nlogits_scaling = 3.0\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("granite_moe: Granite's mixture on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("granite_moe: Granite's mixture's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(model);
}

}  // namespace granite_moe_ranks_test
