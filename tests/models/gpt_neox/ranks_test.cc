// GPT-NeoX on ranks: its q, k and v are one product by heads, part of each head turns, and both layers of a block read
// the same input.
#include "support/family_ranks.h"

namespace gpt_neox_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"gpt_neox\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nff_dim = 22\n"
    "seq_length = 24\npartial_rotary_factor = 0.5\ninit_std = 0.2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("gpt_neox: GPT-NeoX on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, {{2, tensor_parallel(2, false)},
                          {4, tensor_parallel(4, true)},
                          {2, full_shard},
                          {2, two_stages},
                          {2, two_parts},
                          {1, "[strategy.recompute]\n"}});
  learns_the_same(model + "use_parallel_residual = false\ntie_word_embeddings = true\n",
                  {{4, tensor_parallel(2, true) + full_shard}, {2, two_stages}});
  learns_the_same(model + "dropout = 0.1\nattention_dropout = 0.1\n", {{2, tensor_parallel(2, true)}, {2, full_shard}});
}

TEST_CASE("gpt_neox: GPT-NeoX's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace gpt_neox_ranks_test
