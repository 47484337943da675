// Qwen 3, dense and a mixture, on ranks that share layers, positions and experts: what a single rank learns. The model
// has no line for any of it.
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace ranks_test {

using namespace capstan;

namespace {

const std::string dense =
    "[model]\nplugin = \"qwen3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = 2\n"
    "head_dim = 6\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\n";
const std::string mixture = dense +
                            "model_type = \"qwen3_moe\"\nexpert_dim = 10\nnum_experts = 4\nrouter_aux_loss = "
                            "true\nrouter_aux_loss_coef = 0.5\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\n";

testing::TrainResult train(int world, const std::string& config) {
  // One micro-step of all samples: a balancing loss is over those.
  return testing::train({.world = world, .config = config, .overrides = {"train.accumulation=1"}, .steps = 3});
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

const std::string experts = "[strategy.expert_parallel]\nsize = 2\n";
const std::string fsdp = "[strategy.fsdp]\n";

}  // namespace

TEST_CASE("Qwen 3 on ranks learns what it learns on one rank", "[matrix]") {
  check(dense, {{2, fsdp}, {2, tensor(2, false)}, {4, tensor(4, true)}, {4, tensor(2, true) + fsdp}});
  check(dense + "use_sliding_window = true\nsliding_window = 5\nmax_window_layers = 1\n",
        {{2, fsdp}, {4, tensor(4, true)}});
}

TEST_CASE("Qwen 3's mixture on ranks learns what it learns on one rank", "[matrix]") {
  check(mixture, {{2, experts},
                  {4, tensor(2, true) + fsdp},
                  {4, tensor(2, false) + experts},
                  {8, tensor(2, true) + experts + fsdp}});
  check(mixture + "sparse_step = 2\n", {{2, experts}, {4, tensor(2, true) + fsdp}});
}

TEST_CASE("Qwen 3's adapters on ranks learn what they learn on one rank", "[matrix]") {
  check(dense + lora + "targets = [\"q_proj\", \"linear_proj\", \"linear_fc1\"]\ndropout = 0.2\n",
        {{2, tensor(2, true)}, {4, tensor(2, false) + fsdp}});
  check(mixture + lora + "targets = [\"all-linear\"]\n", {{2, experts}, {4, tensor(2, true) + experts}});
}

}  // namespace ranks_test
