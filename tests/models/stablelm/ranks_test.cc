// StableLM on ranks that share layers, positions, blocks or parameters.
#include "support/family_ranks.h"

namespace stablelm_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"stablelm\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 22\n"
    "use_qkv_bias = true\npartial_rotary_factor = 0.5\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("stablelm: StableLM on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
  learns_the_same(model + "use_parallel_residual = true\n", {{2, tensor_parallel(2, true)}});
}

TEST_CASE("stablelm: StableLM's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace stablelm_ranks_test
