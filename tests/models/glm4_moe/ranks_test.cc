// GLM 4's mixtures on ranks that share layers, positions, stages and experts: what a single rank learns. The model has
// no line for any of it.
#include "support/family_ranks.h"

namespace glm4_moe_ranks_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string glm =
    "[model]\nplugin = \"glm4_moe\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nhead_dim = 6\npartial_rotary_factor = 0.7\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\n"
    "attention_bias = true\nhead_norms = true\nnum_experts = 4\nexpert_dim = 10\nshared_experts = 2\n"
    "expert_groups = 2\nweights_scale = 1.5\n";

const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";

}  // namespace

TEST_CASE("glm4_moe: GLM 4's mixtures on ranks learn what they learn on one rank", "[matrix]") {
  learns_the_same(glm, {{2, full_shard},
                        {2, tensor_parallel(2, false)},
                        {2, tensor_parallel(2, true)},
                        {2, experts},
                        {2, two_stages},
                        {2, two_parts},
                        {1, "[strategy.recompute]\n"},
                        {1, "[data]\npacking = true\n"},
                        {2, "[data]\npacking = true\n" + two_parts},
                        {4, tensor_parallel(2, true) + experts + full_shard}});
}

TEST_CASE("glm4_moe: GLM 4's adapters of all products on ranks learn what they learn on one rank", "[matrix]") {
  learns_the_same(glm + "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n",
                  {{2, tensor_parallel(2, true)}, {2, experts}, {2, full_shard}});
}

TEST_CASE("glm4_moe: a router trained whole beside GLM 4's adapters learns on ranks what it learns on one rank",
          "[matrix]") {
  const std::string gate = "model.layers.1.mlp.gate.";
  const std::string model = glm + "[strategy.lora]\nrank = 3\ninit = \"random\"\nmodules_to_save = [\"gate\"]\n";
  const auto gradients = testing::train({.config = model, .steps = 1}).gradients;
  CHECK(gradients.contains(gate + "weight"));
  CHECK_FALSE(gradients.contains(gate + "e_score_correction_bias"));  // which no gradient reaches
  learns_the_same(model, {{2, tensor_parallel(2, true)}, {2, experts}, {2, full_shard}, {2, two_stages}});
}

}  // namespace glm4_moe_ranks_test
