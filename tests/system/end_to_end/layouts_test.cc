// A mixture that changes its layout on the way, through the program: checkpoints of tensor x expert parallelism over
// Gloo, taken up by fewer ranks, then by one.
#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"
#include "end_to_end/run_to_end.h"

namespace layouts_test {

using namespace end_to_end;
using capstan::cat;

namespace {

constexpr double tolerance = 1e-10;  // for sums in float64 in another order

std::string config(const std::string& more) {
  return small_config(
      {{R"(plugin = "gpt")", R"(plugin = "mixtral")"},
       {"hidden_size", "hidden_size = 16"},
       {"num_heads", "num_heads = 4\nnum_kv_heads = 1"},
       {"ff_dim", "ff_dim = 10\nnum_experts = 4\nrouter_aux_loss = true\nrouter_aux_loss_coef = 0.5\ninit_std = 0.2"},
       {"dropout", "attention_dropout = 0.1"},
       {"max_steps", "max_steps = 6\naccumulation = 3\nprecision = \"fp64\""},
       {"micro_batch", ""},
       {"global_batch", "global_batch = 24"}},
      cat("[checkpoint]\nevery_steps = 2\nkeep = 0\n", more));
}

// Runs to the end on `ranks` ranks, from after a step of another run if one is named.
Metrics run(const Workspace& work, const std::string& name, int ranks, const std::string& more,
            const std::string& from = {}) {
  return run_to_end(work, {name, ranks, config(more), from});
}

// The numbers of the steps from `begin` on, and the weights at the end.
void check_same(const Workspace& work, const std::string& name, const Metrics& mine, const Metrics& alone,
                std::ptrdiff_t begin) {
  INFO(name);
  for (const char* key : {"loss", "grad_norm"}) {
    const auto all = alone.all(key);
    CHECK(distance(mine.all(key), {all.begin() + begin, all.end()}) < tolerance);
  }
  const auto weights = read_weights(work.folder() / "runs" / name);
  const auto expected = read_weights(work.folder() / "runs/alone");
  CHECK(weights.size() == expected.size());
  for (const auto& [record, weight] : expected) {
    INFO(record);
    REQUIRE(weights.count(record) == 1);
    CHECK((weights.at(record) - weight).abs().max().item<double>() <= tolerance * weight.abs().max().item<double>());
  }
}

void check_way(const std::string& more) {
  const Workspace work;
  const auto alone = run(work, "alone", 1, more);
  REQUIRE(alone.steps.size() == 6);
  const auto four = run(work, "four", 4,
                        more +
                            "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n"
                            "[strategy.expert_parallel]\nsize = 2\n");
  check_same(work, "four", four, alone, 0);
  const auto two = run(work, "two", 2, more + "[strategy.fsdp]\n", "four/checkpoints/step-00000002");
  check_same(work, "two", two, alone, 2);
  const auto one = run(work, "one", 1, more, "two/checkpoints/step-00000004");
  check_same(work, "one", one, alone, 4);
}

}  // namespace

TEST_CASE("over Gloo: a mixture goes from EP 2 x TP 2 to fsdp on two ranks and on to one", "[experts]") {
  check_way("");
}

TEST_CASE("over Gloo: a mixture's adapters go from EP 2 x TP 2 to fsdp on two ranks and on to one", "[lora]") {
  check_way(
      "[strategy.lora]\nrank = 3\ninit = \"random\"\ndropout = 0.1\ntargets = [\"linear_qkv\", \"experts\", "
      "\"gate\"]\n");
}

}  // namespace layouts_test
