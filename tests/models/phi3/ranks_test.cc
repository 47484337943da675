// Phi-3 on ranks: part of each head turns, by longrope's long factors, and is multiplied as it turns.
#include "support/family_ranks.h"

namespace phi3_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"phi3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = 2\n"
    "head_dim = 8\nff_dim = 22\nseq_length = 24\npartial_rotary_factor = 0.75\nrope_type = \"longrope\"\n"
    "rope_factor = 4.0\nrope_original_length = 6\nrope_short_factors = [1.0, 1.5, 2.0]\n"
    "rope_long_factors = [1.0, 4.0, 9.0]\ninit_std = 0.2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("phi3: Phi-3 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, {{2, tensor_parallel(2, false)},
                          {4, tensor_parallel(4, true)},
                          {2, full_shard},
                          {2, two_stages},
                          {2, two_parts},
                          {1, "[strategy.recompute]\n"}});
  learns_the_same(model + "sliding_window = 5\ndropout = 0.1\n", {{4, tensor_parallel(2, true) + full_shard}});
}

TEST_CASE("phi3: Phi-3's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model + "sliding_window = 5\n");
}

TEST_CASE("phi3: longrope's factors go by the configured length, whatever the length of the rows") {
  const auto losses = [](const std::vector<std::string>& options) {
    return train({.config = model, .overrides = options, .steps = 2}).losses;
  };
  // Rows of 4 to 16 tokens in a model of 24: the long factors turn all of them, and the short ones do not matter.
  const std::string other_short = "model.rope_short_factors=[5.0,6.0,7.0]";
  const std::string other_long = "model.rope_long_factors=[5.0,6.0,7.0]";
  CHECK(losses({}) == losses({other_short}));
  CHECK(losses({}) != losses({other_long}));
  const std::string no_longer = "model.rope_original_length=24";
  CHECK(losses({no_longer}) == losses({no_longer, other_long}));
  CHECK(losses({no_longer}) != losses({no_longer, other_short}));
}

}  // namespace phi3_ranks_test
