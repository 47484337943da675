// Ranks that share the packed weights, or each keep all of them, learn what one rank learns.
#include <capstan_catch.h>

#include "support/layouts.h"

namespace equality_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr double tolerance = 1e-10;

const std::string llama = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\nattention_bias = true\n";
// Experts that two ranks can share, and such as they cannot: then they share the rows of each.
const std::string experts4 = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\nnum_experts = 4\n";
const std::string experts3 = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\nnum_experts = 3\n";

const std::string lora = "[strategy.lora]\ntargets = [\"linear_qkv\", \"linear_proj\"]\ninit = \"random\"\n";
const std::string nf4 = "[strategy.nf4]\n";

const std::string tensors2 = "[strategy.tensor_parallel]\nsize = 2\n",
                  tensors4 = "[strategy.tensor_parallel]\nsize = 4\n";

void check(const std::string& plugin, const std::string& sizes, const std::vector<std::string>& layouts,
           int world = 2) {
  std::vector<Split> splits;
  for (const auto& layout : layouts) splits.emplace_back(world, layout);
  check_splits(configuration(plugin, sizes, lora + nf4), splits, tolerance);
}

}  // namespace

TEST_CASE("four bits change what is learnt, and little") {
  const auto plain = run_of(configuration("llama", llama, lora)),
             packed = run_of(configuration("llama", llama, lora + nf4));
  CHECK(differences(packed, plain, 1e-4) != "");
  CHECK(packed.losses[0] == Approx(plain.losses[0]).epsilon(0.05));
  CHECK(packed.gradients.size() == plain.gradients.size());
  // Only what is named is packed.
  const auto some = run_of(configuration("llama", llama, lora + "[strategy.nf4]\ntargets = [\"linear_fc1\"]\n"));
  CHECK(differences(some, packed, 1e-4) != "");
  CHECK(differences(some, plain, 1e-4) != "");
}

TEST_CASE("float64: the same on every layout", "[matrix]") {
  check("llama", llama,
        {"[strategy.fsdp]\n", "[strategy.fsdp]\nmode = \"no_shard\"\n", "[strategy.fsdp]\nmode = \"shard_grad_op\"\n",
         "[strategy.zero]\nstage = 2\n",
         "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n",
         "[strategy.fsdp]\n[strategy.recompute]\n"});
  check("mixtral", experts4, {"[strategy.fsdp]\n", "[strategy.expert_parallel]\nsize = 2\n"});
  check("mixtral", experts3, {"[strategy.fsdp]\n"});
}

TEST_CASE("float64: the same where ranks compute with rows and columns of a matrix", "[matrix]") {
  check("llama", llama, {tensors2, tensors2 + "sequence_parallel = true\n"});
  check("mixtral", experts4, {tensors2});
  // Four ranks: two of them hold each key head, and data ranks share what tensor ranks have.
  const std::string wide = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 256\n";
  check("llama", wide, {tensors4}, 4);
  check("llama", "hidden_size = 256\nnum_heads = 4\nff_dim = 256\n", {tensors2 + "[strategy.fsdp]\n"}, 4);
  check("mixtral", wide + "num_experts = 2\n", {tensors2 + "[strategy.expert_parallel]\nsize = 2\n"}, 4);
}

namespace {

// In batches that three and six ranks share evenly.
TrainResult in_thirds(const std::string& config, int world) {
  return train({.world = world,
                .config = config,
                .overrides = {same_micro_steps, "train.global_batch=36"},
                .steps = layout_steps});
}

void check_thirds(const std::string& plugin, const std::string& sizes, const std::vector<Split>& splits) {
  const auto config = configuration(plugin, sizes, lora + nf4);
  const auto alone = in_thirds(config, 1);
  for (const auto& [world, tables] : splits) {
    INFO(world << " ranks\n" << config << tables);
    CHECK(differences(in_thirds(config + tables, world), alone, tolerance) == "");
  }
}

}  // namespace

TEST_CASE("float64: the same on any number of ranks, where some have more than others and some nothing", "[matrix]") {
  const std::string fsdp = "[strategy.fsdp]\n",
                    zero = "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n",
                    experts = "[strategy.expert_parallel]\nsize = 2\n";
  // Matrices of less than a group, and those that end within one.
  check_thirds("llama", "hidden_size = 64\nnum_heads = 4\nff_dim = 64\n", {{2, fsdp}, {3, fsdp}});
  check_thirds("llama", "hidden_size = 192\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 320\n",
               {{3, fsdp}, {6, fsdp}, {3, zero}});
  check_thirds("llama", "hidden_size = 256\nnum_heads = 4\nff_dim = 256\n", {{3, fsdp}, {6, tensors2 + fsdp}});
  check_thirds("mixtral", experts3, {{6, fsdp}});
  check_thirds("mixtral", experts4, {{3, fsdp}, {6, experts + fsdp}});
}

TEST_CASE("a resumed run continues bit for bit, on other ranks too") {
  const auto config = configuration("llama", llama, lora + nf4);
  check_resumed(config, tolerance);
  const Setting alone{.world = 1, .config = config, .steps = resumed_steps};
  const Setting three{.world = 3, .config = config + "[strategy.fsdp]\n", .steps = resumed_steps};
  CHECK(differences(train_resumed(three, 2, three), train(three), 0) == "");
  CHECK(differences(train_resumed(three, 2, alone), train(alone), tolerance) == "");
}

}  // namespace equality_test
