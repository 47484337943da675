// Gemma on ranks that share layers, positions, blocks or parameters.
#include "support/family_ranks.h"

namespace gemma_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"gemma\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = 2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "head_dim = 6\nff_dim = 22\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("gemma: Gemma on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
}

TEST_CASE("gemma: Gemma's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace gemma_ranks_test
