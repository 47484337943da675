// Apertus, with two trained numbers in each function between products, on ranks that share layers, positions, blocks or
// parameters.
#include "support/family_ranks.h"

namespace apertus_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"apertus\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 22\n"
    "head_dim = 6\nattention_bias = true\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("apertus: Apertus on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
}

TEST_CASE("apertus: Apertus's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace apertus_ranks_test
