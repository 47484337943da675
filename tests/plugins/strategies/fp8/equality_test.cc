// Ranks that split the model, its experts or its data multiply the same 8-bit numbers as one rank.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/families.h"

namespace equality_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// The first step has no state, the second makes it, and the third uses it.
constexpr std::int64_t steps = 3;
// Sums in float64 in another order. A difference of 1e-16 that crosses the border between two numbers of 8 bits would
// show, and is as rare as it is small.
constexpr double tolerance = 1e-10;

// All sizes are multiples of 16 on four ranks too.
const std::string llama =
    "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nattention_bias = true\nmlp_bias = true\n";
const std::string mixtral =
    "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 4\nrouter_aux_loss = true\n";

TrainResult run(const std::string& plugin, int world, const std::string& tables) {
  Setting setting{.world = world, .overrides = {same_micro_steps}, .steps = steps};
  setting.config = family_config({plugin, plugin == "llama" ? llama : mixtral}) + tables;
  return train(setting);
}

const TrainResult& alone(const std::string& plugin, const std::string& tables) {
  static std::map<std::string, TrainResult> runs;
  auto& made = runs[plugin + tables];
  if (made.losses.empty()) made = run(plugin, 1, tables);
  return made;
}

void check(const std::string& plugin, const std::string& tables,
           const std::vector<std::pair<int, std::string>>& layouts) {
  for (const auto& [world, layout] : layouts) {
    INFO(plugin << " on " << world << " ranks\n" << tables << layout);
    CHECK(differences(run(plugin, world, tables + layout), alone(plugin, tables), tolerance) == "");
  }
}

const std::string tensor2 = "[strategy.tensor_parallel]\nsize = 2\n";
const std::string tensor4 = "[strategy.tensor_parallel]\nsize = 4\n";
const std::string sequence = "sequence_parallel = true\n";
const std::string lora = "[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n";

}  // namespace

TEST_CASE("8 bits change what is learnt, and little") {
  const auto& plain = alone("llama", "");
  const auto& rounded = alone("llama", "[strategy.fp8]\n");
  CHECK(differences(rounded, plain, 1e-4) != "");
  CHECK(rounded.losses.back() < 0.9 * rounded.losses.front());
  CHECK(rounded.losses[0] == Approx(plain.losses[0]).epsilon(0.02));
  for (const auto& [name, gradient] : plain.gradients) {
    INFO(name);
    const auto& other = rounded.gradients.at(name);
    const auto cosine = (gradient * other).sum() / (gradient.norm() * other.norm()).clamp_min(1e-300);
    // Operands are rounded by up to 2^-4, in each of three products on the way; softmax spreads it: q and k are the
    // farthest, at 0.93.
    if (gradient.norm().item<double>() > 1e-12) CHECK(cosine.item<double>() > 0.9);
  }
}

TEST_CASE("float64: tensor and sequence parallelism", "[matrix]") {
  for (const std::string table :
       {"[strategy.fp8]\n", "[strategy.fp8]\nrecipe = \"tensorwise\"\nbackward = \"e5m2\"\n"}) {
    check("llama", table,
          {{2, tensor2}, {4, tensor4}, {4, tensor4 + sequence}, {2, tensor2 + sequence + "[strategy.recompute]\n"}});
  }
  check("mixtral", "[strategy.fp8]\n", {{2, tensor2}, {4, tensor4 + sequence}});
}

// Rows are tokens: where no sum over tokens is rounded, it does not matter which rank has which.
TEST_CASE("float64: data and expert parallelism", "[matrix]") {
  const std::string table = "[strategy.fp8]\nbackward = \"bf16\"\n";
  check("llama", table,
        {{2, "[strategy.fsdp]\n"},
         {4, tensor2 + "[strategy.fsdp]\nmode = \"full_shard\"\n"},
         {2, "[strategy.zero]\nstage = 2\n"},
         {2, "[strategy.recompute]\nregions = [\"mlp\"]\n"}});
  check("mixtral", "[strategy.fp8]\nbackward = \"bf16\"\n",
        {{2, "[strategy.expert_parallel]\nsize = 2\n"},
         {4, "[strategy.expert_parallel]\nsize = 2\n" + tensor2},
         {4, "[strategy.expert_parallel]\nsize = 4\n[strategy.fsdp]\n"}});
}

TEST_CASE("float64: adapters next to frozen layers of 8 bits", "[matrix]") {
  check("llama", "[strategy.fp8]\n" + lora, {{2, tensor2}, {4, tensor4 + sequence}, {2, "[strategy.fsdp]\n"}});
  check("mixtral", "[strategy.fp8]\n" + lora, {{2, tensor2}, {2, "[strategy.expert_parallel]\nsize = 2\n"}});
}

// Where no adapter is, the base's feed-forward layer is one step of autograd's; not where it is split.
TEST_CASE("float64: a frozen feed-forward layer without adapters", "[matrix]") {
  const std::string attention = "[strategy.lora]\ntargets = [\"linear_qkv\"]\ninit = \"random\"\n";
  for (const std::string table : {"[strategy.fp8]\n", "[strategy.fp8]\nrecipe = \"tensorwise\"\n"})
    check("llama", table + attention, {{2, tensor2}, {4, tensor4 + sequence}, {1, "[strategy.recompute]\n"}});
  check("llama", "[strategy.fp8]\n" + attention, {{2, "[strategy.fsdp]\nmode = \"full_shard\"\n"}});
  check("mixtral", "[strategy.fp8]\n" + attention, {{2, tensor2}, {2, "[strategy.expert_parallel]\nsize = 2\n"}});
}

TEST_CASE("a resumed run continues bit for bit") {
  Setting setting{.world = 2, .steps = 4};
  setting.config = family_config({"llama", llama}) + "[strategy.fp8]\n" + tensor2;
  CHECK(differences(train_resumed(setting, 2, setting), train(setting), 0) == "");
}

}  // namespace equality_test
