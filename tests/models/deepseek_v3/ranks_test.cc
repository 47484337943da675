// Attention through latents on ranks that share heads, positions, stages, columns and experts: what a single rank
// learns. The model has no line for any of it.
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace ranks_test {

using namespace capstan;

namespace {

const std::string deepseek =
    "[model]\nplugin = \"deepseek_v3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "query_rank = 9\nkey_rank = 7\nstill_dim = 5\nturned_dim = 4\nvalue_dim = 6\nff_dim = 22\nseq_length = 24\n"
    "init_std = 0.2\nnum_experts = 4\nexpert_dim = 10\nattention_bias = true\nattention_dropout = 0.1\n";
const std::string from_states =
    "[model]\nplugin = \"deepseek_v3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "key_rank = 7\nstill_dim = 5\nturned_dim = 4\nvalue_dim = 9\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\n"
    "num_experts = 4\nexpert_dim = 10\ndense_blocks = 0\n";

void check(const std::string& model, const std::vector<std::pair<int, std::string>>& layouts) {
  const auto alone = testing::train({.config = model, .steps = 5});
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto& [world, strategies] : layouts) {
    INFO(world << " ranks\n" << model << strategies);
    // Sums in float64 in another order, which AdamW amplifies: what the project promises.
    CHECK(testing::differences(testing::train({.world = world, .config = model + strategies, .steps = 5}), alone,
                               1e-10) == "");
  }
}

const std::string tensor = "[strategy.tensor_parallel]\nsize = 2\n";
const std::string sequence = tensor + "sequence_parallel = true\n";
const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";
const std::string fsdp = "[strategy.fsdp]\nmode = \"full_shard\"\n";
const std::string context = "[strategy.context_parallel]\nsize = 2\n";

}  // namespace

TEST_CASE("DeepSeek V3 on ranks learns what it learns on one rank", "[matrix]") {
  check(deepseek, {{2, fsdp},
                   {2, tensor},
                   {2, sequence},
                   {2, experts},
                   {2, context},
                   {2, context + "method = \"gather\"\n"},
                   {2, "[strategy.pipeline_parallel]\nsize = 2\n"},
                   {1, "[strategy.recompute]\n"},
                   {1, "[data]\npacking = true\n"},
                   {2, "[data]\npacking = true\n[strategy.context_parallel]\nsize = 2\n"},
                   {4, sequence + fsdp}});
  check(from_states,
        {{2, tensor}, {4, sequence + experts}, {2, context}, {1, "[strategy.recompute]\nkeep_attention = true\n"}});
}

TEST_CASE("DeepSeek V3's adapters of all products on ranks learn what they learn on one rank", "[matrix]") {
  check(deepseek + "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n",
        {{2, tensor}, {2, sequence}, {2, fsdp}, {2, experts}});
}

TEST_CASE("a ring has no row for values of another width than keys, and says so") {
  try {
    testing::train({.world = 2,
                    .config = deepseek + "[strategy.context_parallel]\nsize = 2\nmethod = \"ring\"\n",
                    .overrides = {"model.attention_dropout=0"},
                    .steps = 1});
    FAIL("a ring took it");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("which cannot compute values of another width than keys"));
  }
}

}  // namespace ranks_test
