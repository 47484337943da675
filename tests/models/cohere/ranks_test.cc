// Cohere, whose layers stand side by side after one norm, on ranks that share layers, positions, blocks or parameters.
#include "support/family_ranks.h"

namespace cohere_ranks_test {

using namespace capstan::testing;

namespace {

const std::string sizes =
    "[model]\nplugin = \"cohere\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = "
    "2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "ff_dim = 22\nlogit_scale = 0.5\n";
const std::string model = sizes + "sliding_window = 7\nglobal_every = 2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("cohere: Cohere 2 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
  learns_the_same(sizes + "model_type = \"cohere\"\nattention_bias = true\n",
                  {{4, tensor_parallel(2, true) + full_shard}});
}

TEST_CASE("cohere: Cohere 2's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace cohere_ranks_test
