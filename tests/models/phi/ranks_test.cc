// Phi on ranks: its head has a bias, which is cut with the vocabulary.
#include "support/family_ranks.h"

namespace phi_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"phi\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nff_dim = 22\n"
    "seq_length = 24\npartial_rotary_factor = 0.5\ninit_std = 0.2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("phi: Phi on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
  learns_the_same(model, {{2, tensor_parallel(2, false)},
                          {4, tensor_parallel(2, true) + full_shard},
                          {2, tensor_parallel(2, true) + "vocab_parallel = false\n"}});
  learns_the_same(model + "tie_word_embeddings = true\ndropout = 0.1\n",
                  {{2, tensor_parallel(2, true)}, {2, two_stages}});
}

TEST_CASE("phi: Phi's adapters on ranks, a head that is trained beside them, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  learns_the_same(model + lora + "modules_to_save = [\"lm_head\"]\n", {{2, tensor_parallel(2, true)}, {2, full_shard}});
  packs_the_same(model);
}

}  // namespace phi_ranks_test
