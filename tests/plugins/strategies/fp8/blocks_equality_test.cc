// Products by block: ranks that split, share or gather a model multiply the numbers of one rank.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/families.h"

namespace blocks_equality_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t steps_of_blocks = 3;
constexpr double tolerance_of_blocks = 1e-10;

// Two ranks' pieces are whole blocks.
const std::string llama_256 =
    "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 256\nattention_bias = true\nmlp_bias = true\n";
const std::string mixtral_256 = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 32\nnum_experts = 4\n";

const std::string blocks = "[strategy.fp8]\nrecipe = \"blockwise\"\n";
const std::string stored_blocks = blocks + "store = \"fp8\"\n";
const std::string two_tensor = "[strategy.tensor_parallel]\nsize = 2\n";
const std::string with_sequence = "sequence_parallel = true\n";
const std::string adapters = "[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n";
const std::string attention_alone = "[strategy.lora]\ntargets = [\"linear_qkv\"]\ninit = \"random\"\n";

TrainResult run_blocks(const std::string& plugin, const std::string& sizes, const std::string& tables, int world) {
  // One micro-step: what takes long is to round the weights in each. Products of 64 columns are summed over three.
  Setting setting{.world = world, .overrides = {"train.accumulation=1"}, .steps = steps_of_blocks};
  setting.config = family_config({plugin, sizes}) + tables;
  return train(setting);
}

void check_blocks(const std::string& plugin, const std::string& tables,
                  const std::vector<std::pair<int, std::string>>& layouts) {
  const auto& sizes = plugin == "llama" ? llama_256 : mixtral_256;
  const auto alone = run_blocks(plugin, sizes, tables, 1);
  for (const auto& [world, layout] : layouts) {
    INFO(plugin << " on " << world << " ranks\n" << tables << layout);
    CHECK(differences(run_blocks(plugin, sizes, tables + layout, world), alone, tolerance_of_blocks) == "");
  }
}

}  // namespace

TEST_CASE("float64: blocks under tensor, sequence, data and expert parallelism", "[matrix]") {
  check_blocks("llama", blocks, {{2, two_tensor}, {2, two_tensor + with_sequence + "[strategy.recompute]\n"}});
  check_blocks("llama", blocks + "backward = \"bf16\"\n",
               {{2, "[strategy.fsdp]\nmode = \"full_shard\"\n"}, {2, "[strategy.zero]\nstage = 2\n"}});
  check_blocks("mixtral", blocks + "backward = \"bf16\"\n", {{2, "[strategy.expert_parallel]\nsize = 2\n"}});
}

TEST_CASE("float64: adapters next to frozen layers in blocks", "[matrix]") {
  check_blocks("llama", blocks + adapters, {{2, two_tensor}, {2, "[strategy.fsdp]\n"}});
  check_blocks("llama", blocks + attention_alone, {{2, two_tensor + with_sequence}, {1, "[strategy.recompute]\n"}});
}

TEST_CASE("float64: a base in 8 bits by block learns what one learns that is kept besides", "[matrix]") {
  const auto kept = run_blocks("llama", llama_256, blocks + adapters, 1);
  const auto in_bytes = run_blocks("llama", llama_256, stored_blocks + adapters, 1);
  // Both orientations have the same numbers.
  CHECK(in_bytes.losses == kept.losses);
  CHECK(in_bytes.norms == kept.norms);
  for (const auto& [name, gradient] : kept.gradients) {
    INFO(name);
    CHECK(at::equal(in_bytes.gradients.at(name), gradient));
  }
  const auto in_both = run_blocks("llama", llama_256, blocks + "store = \"fp8_both\"\n" + adapters, 1);
  CHECK(differences(in_both, in_bytes, 0) == "");
  check_blocks("llama", stored_blocks + adapters,
               {{2, two_tensor},
                {2, "[strategy.fsdp]\nmode = \"full_shard\"\n"},
                {2, "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"}});
  check_blocks("mixtral", stored_blocks + attention_alone, {{2, "[strategy.expert_parallel]\nsize = 2\n"}});
}

TEST_CASE("runs by block resume bit for bit") {
  for (const auto& tables : {blocks, stored_blocks + adapters}) {
    INFO(tables);
    Setting setting{.world = 1, .steps = 4};
    setting.config = family_config({"llama", llama_256}) + tables;
    CHECK(differences(train_resumed(setting, 2, setting), train(setting), 0) == "");
  }
}

}  // namespace blocks_equality_test
