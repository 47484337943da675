// GPT-J on ranks: part of each head turns, neighbours together, and its head has a bias.
#include "support/family_ranks.h"

namespace gptj_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"gptj\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 2\nff_dim = 22\n"
    "seq_length = 24\nrotary_dim = 4\ninit_std = 0.2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("gptj: GPT-J on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
  learns_the_same(model + "dropout = 0.1\nattention_dropout = 0.1\n", {{2, tensor_parallel(2, true)}, {2, full_shard}});
}

TEST_CASE("gptj: GPT-J's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace gptj_ranks_test
