// EXAONE 4, one of whose blocks has a window and one no positions, on ranks that share layers, positions, blocks or
// parameters.
#include "support/family_ranks.h"

namespace exaone4_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"exaone4\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = "
    "2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "ff_dim = 22\nsliding_window = 7\nlayer_types = [\"sliding_attention\", \"full_attention\"]\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("exaone4: EXAONE 4 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
}

TEST_CASE("exaone4: EXAONE 4's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace exaone4_ranks_test
