// Qwen 3.5, dense and a mixture, on ranks that share layers, positions, parameters and experts, packed, recomputed and
// with adapters: what a single rank learns.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/errors.h"

namespace ranks_test {

using namespace capstan;
using Catch::Matchers::Contains;

namespace {

// A state's first results are small: with a larger epsilon their norm does not amplify how sums are rounded.
const std::string dense =
    "[model]\nplugin = \"qwen3_5\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 3\nnum_heads = 4\nnum_kv_heads = "
    "2\n"
    "head_dim = 8\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\nfull_attention_interval = 2\ndelta_key_heads = 2\n"
    "delta_value_heads = 4\ndelta_key_dim = 3\ndelta_value_dim = 5\nrms_norm_epsilon = 0.01\n";
const std::string mixture =
    dense +
    "model_type = \"qwen3_5_moe_text\"\nexpert_dim = 10\nshared_expert_dim = 6\nnum_experts = 4\n"
    "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\n";
const std::string next =
    dense + "model_type = \"qwen3_next\"\nexpert_dim = 10\nshared_expert_dim = 6\nnum_experts = 4\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";
const std::string fsdp = "[strategy.fsdp]\n";
const std::string stages = "[strategy.pipeline_parallel]\nsize = 2\n";

testing::TrainResult train(int world, const std::string& config, bool packed = false) {
  // One micro-step of all samples: a balancing loss is over those.
  std::vector<std::string> overrides{"train.accumulation=1"};
  if (packed) overrides.emplace_back("data.packing=true");
  return testing::train({.world = world, .config = config, .overrides = overrides, .steps = 3});
}

std::string tensor(int size, bool sequence) {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" +
         (sequence ? "sequence_parallel = true\n" : "");
}

void check(const std::string& model, const std::vector<std::pair<int, std::string>>& layouts) {
  const auto alone = train(1, model);
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto& [world, strategies] : layouts) {
    INFO(world << " ranks\n" << model << strategies);
    // Sums in float64 in another order, which AdamW amplifies: what the project promises.
    CHECK(testing::differences(train(world, model + strategies), alone, 1e-10) == "");
  }
}

}  // namespace

TEST_CASE("Qwen 3.5 on ranks learns what it learns on one rank", "[matrix]") {
  check(dense, {{2, fsdp}, {2, stages}, {4, tensor(2, true) + fsdp}, {1, "[strategy.recompute]\n"}});
}

TEST_CASE("Qwen 3.5's mixture on ranks learns what it learns on one rank", "[matrix]") {
  check(mixture, {{2, tensor(2, false)}, {4, tensor(2, true) + experts}});
}

TEST_CASE("Qwen 3 Next on ranks learns what it learns on one rank, with adapters too", "[matrix]") {
  check(next, {{2, stages}, {4, tensor(2, true) + experts + fsdp}});
  check(next + lora, {{2, tensor(2, true)}, {2, fsdp}});
  CHECK(testing::differences(train(2, next + tensor(2, true), true), train(1, next), 1e-10) == "");
}

TEST_CASE("Qwen 3.5's adapters on ranks learn what they learn on one rank", "[matrix]") {
  check(dense + lora, {{2, fsdp}, {2, tensor(2, true)}, {2, stages}});
  check(mixture + lora, {{2, tensor(2, false)}});
}

TEST_CASE("Qwen 3.5 learns from packed rows what it learns from a row for each sequence", "[matrix]") {
  const auto apart = train(1, dense);
  CHECK(testing::differences(train(1, dense + "[strategy.recompute]\n", true), apart, 1e-10) == "");
  CHECK(testing::differences(train(2, dense + tensor(2, true), true), apart, 1e-10) == "");
  CHECK(testing::differences(train(2, dense + stages, true), apart, 1e-10) == "");
  CHECK(testing::differences(train(1, mixture, true), train(1, mixture), 1e-10) == "");
}

TEST_CASE("ranks that cannot share a state's heads or tokens are refused") {
  CHECK_THAT(test::error_of([] { train(2, dense + "[strategy.context_parallel]\nsize = 2\n"); }),
             Contains("strategy.context_parallel.size is 2, but blocks.0/gated_delta_net hands a state from token to "
                      "token, so that ranks cannot share a row's columns") &&
                 Contains("remove strategy.context_parallel"));
  CHECK_THAT(test::error_of([] { train(4, dense + tensor(4, false)); }),
             Contains("strategy.tensor_parallel.size is 4, but the 2 heads of blocks.0/gated_delta_net, each with a "
                      "state of its own, are not divisible by it"));
}

}  // namespace ranks_test
