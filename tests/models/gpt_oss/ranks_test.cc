// gpt-oss on ranks that share layers, positions and experts: what a single rank learns. The model has no line for any
// of it.
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace ranks_test {

using namespace capstan;

namespace {

const std::string model =
    "[model]\nplugin = \"gpt_oss\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = "
    "2\nhead_dim = 6\nff_dim = 10\nnum_experts = 4\nexperts_per_token = 2\nsliding_window = 5\nseq_length = 24\n"
    "init_std = 0.2\nrouter_aux_loss = true\nrouter_aux_loss_coef = 0.5\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";
const std::string fsdp = "[strategy.fsdp]\n";

testing::TrainResult train(int world, const std::string& config) {
  // One micro-step of all samples: a balancing loss is over those.
  return testing::train({.world = world, .config = config, .overrides = {"train.accumulation=1"}, .steps = 3});
}

std::string tensor(int size, bool sequence) {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" +
         (sequence ? "sequence_parallel = true\n" : "");
}

void check(const std::string& config, const std::vector<std::pair<int, std::string>>& layouts) {
  const auto alone = train(1, config);
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto& [world, strategies] : layouts) {
    INFO(world << " ranks\n" << config << strategies);
    // Sums in float64 in another order, which AdamW amplifies: what the project promises.
    CHECK(testing::differences(train(world, config + strategies), alone, 1e-10) == "");
  }
}

}  // namespace

TEST_CASE("gpt-oss on ranks learns what it learns on one rank", "[matrix]") {
  check(model, {{2, tensor(2, false)},
                {2, tensor(2, true)},
                {2, fsdp},
                {2, "[strategy.context_parallel]\nsize = 2\n"},
                {2, experts},
                {4, tensor(2, true) + experts},
                {4, tensor(2, true) + fsdp}});
}

TEST_CASE("gpt-oss in stages and with recomputed blocks learns the same", "[matrix]") {
  check(model, {{1, "[strategy.recompute]\nevery = 1\n"},
                {2, "[strategy.pipeline_parallel]\nsize = 2\n"},
                {2, "[strategy.fsdp]\nmode = \"full_shard\"\n"}});
}

TEST_CASE("gpt-oss' adapters on ranks learn what they learn on one rank", "[matrix]") {
  check(model + lora, {{2, tensor(2, true)}, {2, experts}, {2, fsdp}});
}

}  // namespace ranks_test
