// Adapters of one layer multiply its input together, unless each draws a mask of its own for it.
#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/lora/jobs.h"
#include "predict/dry_job.h"

namespace joined_test {

using namespace capstan;
using namespace lora_test;

namespace {

// So improbable that nothing is dropped and the rest is multiplied by exactly 1: each adapter computes by itself.
const std::string apart = "dropout = 1e-17\n";

const std::vector<std::string> targets{"\"all-linear\"", "\"q_proj\", \"k_proj\", \"v_proj\"", "\"q_proj\", \"v_proj\"",
                                       "\"gate_proj\", \"up_proj\", \"k_proj\""};

std::int64_t times(const job::Job& job, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  std::int64_t sum = 0;
  for (const auto& [product, count] : job.prediction.work->micro.compute.products) {
    if (product.rows == rows && product.columns == columns && product.depth == depth) sum += count;
  }
  return sum;
}

}  // namespace

// Sums in another order in float64, amplified by AdamW.
TEST_CASE("float64: adapters of one layer learn together what each learns by itself") {
  for (const auto& model : {llama, qwen3 + "ff_dim = 22\n"}) {
    for (const auto& named : targets) {
      const auto config = model + lora_table(cat("targets = [", named, "]\nalpha = 7\n"));
      INFO(config);
      const auto alone = testing::train({.world = 1, .config = config + apart, .steps = 3});
      for (const auto& [name, gradient] : alone.gradients) CHECK(gradient.abs().max().item<double>() > 0);
      for (const char* strategy : {"", "[strategy.recompute]\n", "[train]\naccumulation = 2\n", "[strategy.fsdp]\n"}) {
        INFO(strategy);
        const int world = std::string(strategy).find("fsdp") == std::string::npos ? 1 : 2;
        CHECK(testing::differences(testing::train({.world = world, .config = config + strategy, .steps = 3}), alone,
                                   1e-10) == "");
      }
    }
  }
}

// Its reference is the base model, in a pass without adapters.
TEST_CASE("float64: adapters of one layer learn preferences together as by themselves") {
  const auto config = llama + lora_table("targets = [\"all-linear\"]\nalpha = 7\n");
  const std::string preferences = "[data]\nsequences = 2\n[objective]\nplugin = \"dpo\"\nbeta = 0.5\n";
  const auto alone = testing::train({.world = 1, .config = config + apart + preferences, .steps = 3});
  CHECK(testing::differences(testing::train({.world = 1, .config = config + preferences, .steps = 3}), alone, 1e-10) ==
        "");
}

TEST_CASE("the products with a layer's input are those of one adapter with the sum of the ranks") {
  constexpr std::int64_t tokens = testing::rows * testing::length, hidden = 64, layers = 2;
  const auto job = [](const std::string& more) {
    const auto table = lora_table("targets = [\"q_proj\", \"k_proj\", \"v_proj\"]\n" + more);
    return testing::job_of(testing::small(testing::llama, "bf16", table), "cuda");
  };
  const auto together = job(""), by_itself = job("dropout = 0.1\n");
  REQUIRE((together.prediction.work && by_itself.prediction.work));
  CHECK(times(together, tokens, 9, hidden) == layers);
  CHECK(times(together, 9, hidden, tokens) == layers);  // the gradient of the first matrices
  CHECK(times(together, tokens, hidden, 9) == layers);  // and that of the input
  // As many columns have what makes q's gradient of the product between both matrices.
  CHECK(times(together, tokens, 3, hidden) == layers);
  CHECK(times(by_itself, tokens, 3, hidden) == (3 + 1) * layers);
  CHECK(together.prediction.work->micro.compute.kernels < by_itself.prediction.work->micro.compute.kernels);
}

}  // namespace joined_test
