// MiniMax M2 on ranks that share layers, positions, blocks, experts or parameters.
#include "support/family_ranks.h"

namespace minimax_m2_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"minimax_m2\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 10\nhead_dim = 8\nrotary_dim = 4\n"
    "num_experts = 4\nexperts_per_token = 2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("minimax_m2: MiniMax M2 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("minimax_m2: MiniMax M2's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(model);
}

TEST_CASE("minimax_m2: either key turns the same part of a head") {
  const auto half = [](const std::string& word) {
    return train({.world = 1, .config = model, .overrides = {word}, .steps = 2});
  };
  CHECK(differences(half("model.partial_rotary_factor=0.5"), half("model.rotary_dim=4"), 0) == "");
  CHECK(differences(half("model.rotary_dim=8"), half("model.rotary_dim=4"), 1e-3) != "");
}

}  // namespace minimax_m2_ranks_test
