// Ministral 3 on ranks: queries grow with their position in their document, wherever a rank begins.
#include "support/family_ranks.h"

namespace ministral3_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"ministral3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nhead_dim = 6\nff_dim = 22\nseq_length = 24\nrope_type = \"yarn\"\nrope_factor = 6.0\n"
    "rope_original_length = 4\nrope_theta = 100.0\nrope_mscale = 1.0\nrope_mscale_all = 0.5\nquery_scaling = 0.7\n"
    "init_std = 0.2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("ministral3: Ministral 3 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, {{2, tensor_parallel(2, false)},
                          {4, tensor_parallel(4, true)},
                          {2, full_shard},
                          {2, two_stages},
                          {2, two_parts},
                          {1, "[strategy.recompute]\n"}});
  learns_the_same(model + "sliding_window = 5\n", {{4, tensor_parallel(2, true) + full_shard}, {2, two_parts}});
}

TEST_CASE("ministral3: Ministral 3's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace ministral3_ranks_test
