// StarCoder 2, with layer norms, biases and a window, on ranks that share layers, positions, blocks or parameters.
#include "support/family_ranks.h"

namespace starcoder2_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"starcoder2\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads "
    "= 2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "ff_dim = 22\nsliding_window = 7\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("starcoder2: StarCoder 2 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
  learns_the_same(model + "dropout = 0.1\nembedding_dropout = 0.1\n", {{2, tensor_parallel(2, true)}});
}

TEST_CASE("starcoder2: StarCoder 2's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace starcoder2_ranks_test
