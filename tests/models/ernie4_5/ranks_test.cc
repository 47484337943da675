// ERNIE 4.5, with biases, on ranks that share layers, positions, blocks or parameters.
#include "support/family_ranks.h"

namespace ernie4_5_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"ernie4_5\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 22\n"
    "head_dim = 6\nuse_bias = true\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("ernie4_5: ERNIE 4.5 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
}

TEST_CASE("ernie4_5: ERNIE 4.5's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace ernie4_5_ranks_test
