// Attention through latents on ranks that share heads, positions, stages, columns and experts: what a single rank
// learns. The model has no line for any of it.
#include "support/family_ranks.h"

namespace deepseek_v3_ranks_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string deepseek =
    "[model]\nplugin = \"deepseek_v3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "query_rank = 9\nkey_rank = 7\nstill_dim = 5\nturned_dim = 4\nvalue_dim = 6\nff_dim = 22\nseq_length = 24\n"
    "init_std = 0.2\nnum_experts = 4\nexpert_dim = 10\nattention_bias = true\nattention_dropout = 0.1\n";
const std::string from_states =
    "[model]\nplugin = \"deepseek_v3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "key_rank = 7\nstill_dim = 5\nturned_dim = 4\nvalue_dim = 9\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\n"
    "num_experts = 4\nexpert_dim = 10\ndense_blocks = 0\n";

const std::string v2 = from_states + "model_type = \"deepseek_v2\"\nnormalise_weights = false\nexperts_per_token = 2\n";

const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";

}  // namespace

TEST_CASE("deepseek_v3: DeepSeek V3 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(deepseek, {{2, full_shard},
                             {2, tensor_parallel(2, false)},
                             {2, tensor_parallel(2, true)},
                             {2, experts},
                             {2, two_parts},
                             {2, two_parts + "method = \"gather\"\n"},
                             {2, two_stages},
                             {1, "[strategy.recompute]\n"},
                             {1, "[data]\npacking = true\n"},
                             {2, "[data]\npacking = true\n" + two_parts},
                             {4, tensor_parallel(2, true) + full_shard}});
  learns_the_same(from_states, {{2, tensor_parallel(2, false)},
                                {4, tensor_parallel(2, true) + experts},
                                {2, two_parts},
                                {1, "[strategy.recompute]\nkeep_attention = true\n"}});
  learns_the_same(v2, {{4, tensor_parallel(2, true) + experts}});
}

TEST_CASE("deepseek_v3: DeepSeek V3's adapters of all products on ranks learn what they learn on one rank",
          "[matrix]") {
  learns_the_same(deepseek + "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n",
                  {{2, tensor_parallel(2, false)}, {2, tensor_parallel(2, true)}, {2, full_shard}, {2, experts}});
  learns_the_same(v2 + "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n",
                  {{2, tensor_parallel(2, true)}, {4, experts + full_shard}});
}

TEST_CASE("deepseek_v3: adapters' usual layers are not there, and what to set is said") {
  try {
    testing::train({.config = deepseek + "[strategy.lora]\nrank = 3\n", .steps = 1});
    FAIL("it found linear_qkv");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("names \"linear_qkv\", but the model has: ") &&
                                 Contains(R"(fix: set strategy.lora.targets = ["all-linear"], or name some of these)"));
  }
}

TEST_CASE("deepseek_v3: a ring has no row for values of another width than keys, and says so") {
  try {
    testing::train({.world = 2,
                    .config = deepseek + two_parts + "method = \"ring\"\n",
                    .overrides = {"model.attention_dropout=0"},
                    .steps = 1});
    FAIL("a ring took it");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("which cannot compute values of another width than keys"));
  }
}

}  // namespace deepseek_v3_ranks_test
