// Gemma 4 on ranks that share layers, positions, blocks or parameters: what one rank learns alone. The model has no
// line for any of it.
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace gemma4_ranks_test {

using namespace capstan;

namespace {

const std::string model =
    "[model]\nplugin = \"gemma4\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 5\nnum_heads = 4\n"
    "num_kv_heads = 2\nhead_dim = 6\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\nsliding_window = 5\n"
    "rope_theta = 500.0\nlocal_rope_theta = 40.0\nturned_part = 0.5\nglobal_head_dim = 8\nlogits_cap = 3.0\n"
    "layer_types = [\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"sliding_attention\", "
    "\"full_attention\"]\n";
// The last two blocks use keys and values of earlier ones, and each block has an input of its own.
const std::string sharing =
    model +
    "keys_are_values = true\nglobal_kv_heads = 1\nsharing_layers = 2\ndouble_wide_mlp = true\ninputs_width = 6\n"
    "inputs_vocab_size = 261\n";
// Experts beside the feed-forward layers of three blocks.
const std::string mixture =
    "[model]\nplugin = \"gemma4\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 3\nnum_heads = 4\n"
    "num_kv_heads = 2\nhead_dim = 6\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\nsliding_window = 5\n"
    "rope_theta = 500.0\nlocal_rope_theta = 40.0\nturned_part = 0.5\nglobal_head_dim = 8\nglobal_kv_heads = 2\n"
    "keys_are_values = true\nlayer_types = [\"sliding_attention\", \"full_attention\", \"full_attention\"]\n"
    "routed_experts = true\nnum_experts = 4\nexperts_per_token = 2\nexpert_dim = 10\n";
const std::string sequence = "sequence_parallel = true\n", fsdp = "[strategy.fsdp]\nmode = \"full_shard\"\n";
const std::string recompute = "[strategy.recompute]\n", packing = "[data]\npacking = true\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

constexpr std::int64_t steps = 3;

std::string of(const std::string& strategy) { return "[strategy." + strategy + "]\nsize = 2\n"; }

void check(const std::string& trained, const std::vector<std::pair<int, std::string>>& layouts) {
  const auto alone = testing::train({.config = trained, .steps = steps});
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto& [world, strategies] : layouts) {
    INFO(world << " ranks\n" << trained << strategies);
    // Sums in float64 in another order, which AdamW amplifies: in five steps by more than the project promises, where
    // what reads a block's keys adds to their gradient.
    const auto run = testing::train({.world = world, .config = trained + strategies, .steps = steps});
    CHECK(testing::differences(run, alone, 1e-10) == "");
  }
}

}  // namespace

TEST_CASE("gemma4: Gemma 4 on ranks learns what it learns on one rank", "[matrix]") {
  check(model, {{2, of("tensor_parallel") + sequence}, {2, fsdp}, {2, of("pipeline_parallel")}});
  check(sharing, {{2, of("tensor_parallel")},
                  {2, of("tensor_parallel") + sequence},
                  {2, fsdp},
                  {2, fsdp + recompute},
                  {1, recompute + "regions = [\"attention\", \"mlp\"]\n"},
                  {2, of("pipeline_parallel")},
                  {2, of("pipeline_parallel") + recompute},
                  {2, of("pipeline_parallel") + "schedule = \"zero_bubble\"\n" + recompute},
                  {2, of("context_parallel")},
                  {1, packing},
                  {4, of("tensor_parallel") + sequence + of("pipeline_parallel") + packing},
                  {4, of("context_parallel") + fsdp + packing}});
}

TEST_CASE("gemma4: Gemma 4's mixtures on ranks learn what they learn on one rank", "[matrix]") {
  check(mixture, {{2, of("tensor_parallel")},
                  {2, of("tensor_parallel") + sequence},
                  {2, of("expert_parallel")},
                  {2, fsdp},
                  {2, fsdp + recompute},
                  {1, recompute + "regions = [\"attention\", \"mlp\"]\n"},
                  {2, of("pipeline_parallel")},
                  {2, of("context_parallel")},
                  {1, packing},
                  {4, of("tensor_parallel") + sequence + of("expert_parallel") + recompute},
                  {4, of("context_parallel") + fsdp + packing}});
  check(mixture + lora, {{2, of("tensor_parallel") + sequence}, {2, of("expert_parallel")}, {2, fsdp}});
}

TEST_CASE("gemma4: Gemma 4's adapters on ranks learn what they learn on one rank", "[matrix]") {
  check(sharing + lora, {{2, of("tensor_parallel") + sequence}, {2, fsdp}, {2, of("pipeline_parallel")}});
}

}  // namespace gemma4_ranks_test
