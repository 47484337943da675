// A frozen base in 8 bits alone: ranks that split it, share it or gather it learn what one rank learns.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/families.h"

using namespace capstan;
using namespace capstan::testing;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t steps_of_store = 5;
constexpr double tolerance_of_store = 1e-10;

const std::string llama_64 = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nattention_bias = true\n";
// Experts that two ranks can share, and such as they cannot: then they share the rows of each.
const std::string experts_4 = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 4\n";
const std::string experts_3 = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 3\n";

const std::string everywhere = "[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n";
const std::string attention = "[strategy.lora]\ntargets = [\"linear_qkv\", \"linear_proj\"]\ninit = \"random\"\n";
const std::string stored = "[strategy.fp8]\nstore = \"fp8\"\n";

std::string configuration(const std::string& plugin, const std::string& sizes, const std::string& tables) {
  return family_config({plugin, sizes}) + tables;
}

Run run_stored(const std::string& config, int world = 1) {
  return train({.world = world, .config = config, .overrides = {same_micro_steps}, .steps = steps_of_store});
}

void check_layouts(const std::string& plugin, const std::string& sizes, const std::string& tables,
                   const std::vector<std::pair<int, std::string>>& layouts) {
  const auto alone = run_stored(configuration(plugin, sizes, tables));
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto& [world, layout] : layouts) {
    INFO(plugin << "\n" << sizes << tables << layout);
    CHECK(differences(run_stored(configuration(plugin, sizes, tables + layout), world), alone, tolerance_of_store) ==
          "");
  }
}

std::string refusal_of(const std::string& config, int world = 1) {
  try {
    run_stored(config, world);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is stored in 8 bits is what is multiplied without it") {
  const auto kept = run_stored(configuration("llama", llama_64, everywhere + "[strategy.fp8]\n"));
  const auto alone = run_stored(configuration("llama", llama_64, everywhere + stored));
  CHECK(alone.losses[0] == kept.losses[0]);  // forward's numbers are the same
  CHECK(alone.losses.back() == Approx(kept.losses.back()).epsilon(1e-3));
}

TEST_CASE("float64: a base in 8 bits, split over ranks", "[matrix]") {
  const std::string tensor2 = "[strategy.tensor_parallel]\nsize = 2\n";
  const std::string tensor4 = "[strategy.tensor_parallel]\nsize = 4\nsequence_parallel = true\n";
  check_layouts("llama", llama_64, stored + everywhere, {{2, tensor2}, {4, tensor4}});
  check_layouts("llama", llama_64, stored + attention, {{2, tensor2 + "[strategy.recompute]\n"}});
  check_layouts("mixtral", experts_4, stored + attention,
                {{2, tensor2}, {2, "[strategy.expert_parallel]\nsize = 2\n"}});
}

TEST_CASE("float64: a base in 8 bits, gathered in 8 bits or on each rank", "[matrix]") {
  check_layouts("llama", llama_64, stored + everywhere,
                {{2, "[strategy.fsdp]\n"},
                 {2, "[strategy.fsdp]\nmode = \"no_shard\"\n"},
                 {4, "[strategy.fsdp]\nreshard_size = 2\n"},
                 {2, "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"},
                 {4, "[strategy.fsdp]\n[strategy.tensor_parallel]\nsize = 2\n"}});
  check_layouts("mixtral", experts_4, stored + attention,
                {{4, "[strategy.fsdp]\n[strategy.expert_parallel]\nsize = 2\n"}});
  check_layouts("mixtral", experts_3, stored + attention, {{2, "[strategy.fsdp]\n"}});
}

TEST_CASE("a run with a base in 8 bits resumes bit for bit, on other ranks too") {
  Setting setting{.world = 1, .config = configuration("llama", llama_64, everywhere + stored), .steps = steps_of_store};
  CHECK(differences(train_resumed(setting, 2, setting), train(setting), 0) == "");
  auto sharded = setting;
  sharded.world = 2;
  sharded.config += "[strategy.fsdp]\n";
  CHECK(differences(train_resumed(setting, 2, sharded), train(setting), tolerance_of_store) == "");
}

TEST_CASE("what cannot be stored in 8 bits is refused in words") {
  const auto config = [](const std::string& tables) { return configuration("llama", llama_64, tables); };
  CHECK_THAT(refusal_of(config(stored)), Contains("strategy.fp8.store = \"fp8\" keeps model.layers.0") &&
                                             Contains("would be trained") && Contains("add strategy.lora"));
  const std::string with_layer = "[strategy.lora]\nmodules_to_save = [\"linear_fc1\"]\n";
  CHECK_THAT(refusal_of(config(with_layer + stored)), Contains("keeps model.layers.0.mlp"));
  CHECK_THAT(refusal_of(config(everywhere + stored + "recipe = \"tensorwise\"\n")),
             Contains("keeps scales of rows or blocks, and recipe is \"tensorwise\""));
}
