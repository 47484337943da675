// Strategies together: tensor x expert parallelism x adapters x sharding x recompute learn what one rank does.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/compositions.h"
#include "support/pairwise.h"

namespace composition_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

enum Factor : std::size_t { ranks_, tp_, ep_, sequence_, adapters_, data_, again_ };

const std::vector<std::string> data_modes{
    "[strategy.fsdp]\n",
    "[strategy.zero]\nstage = 2\n",
    "[strategy.zero]\nstage = 3\nbucket_size = 2500\noffload_optimizer = \"cpu\"\n",
    "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 1\n",
    "",
    "[strategy.fsdp]\nmode = \"shard_grad_op\"\n",
    "[strategy.zero]\nstage = 1\n",
};
const std::vector<std::string> recomputes{"", "[strategy.recompute]\n",
                                          "[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n"};
// ranks 2, 4, 8; tp and ep 1, 2, 4 (tp 8 is for models of eight heads)
const std::vector<std::size_t> levels{3, 3, 3, 2, 2, data_modes.size(), recomputes.size()};

int world_of(const Choice& c) { return 2 << c[ranks_]; }
int tp_of(const Choice& c) { return 1 << c[tp_]; }
int ep_of(const Choice& c) { return 1 << c[ep_]; }

bool allowed(const Choice& c) {
  const bool hybrid = data_modes[c[data_]].find("hybrid") != std::string::npos;
  return tp_of(c) * ep_of(c) <= world_of(c) && (c[sequence_] == 0 || tp_of(c) > 1) && !(hybrid && ep_of(c) > 1);
}

std::string model_with(const Family& family, bool with_adapters) {
  return family_config(family) + (with_adapters ? adapters_of(family) : "");
}

struct Precision {
  std::string name;
  double tolerance;
  std::int64_t steps;
};
// float64 sums in another order, amplified by AdamW: what the project promises. After the second step all that a layout
// keeps from one step to the next has been used.
const Precision float64{"fp64", 1e-10, 4};
// Rounding of 1e-7 a term, and AdamW's amplification of it.
const Precision float32{"fp32", 1e-4, 4};

TrainResult run(const std::string& config, int world, const Precision& precision) {
  return train({.world = world,
                .config = config,
                .overrides = {same_micro_steps, "train.precision=" + precision.name},
                .steps = precision.steps});
}

const TrainResult& alone(const std::string& config, const Precision& precision) {
  static std::map<std::pair<std::string, std::string>, TrainResult> runs;
  const auto found = runs.find({config, precision.name});
  if (found != runs.end()) return found->second;
  auto one = run(config, 1, precision);
  REQUIRE(one.losses.back() < one.losses.front());
  return runs[{config, precision.name}] = std::move(one);
}

void check(const Family& family, const Choice& c, const Precision& precision = float64) {
  auto strategies = data_modes[c[data_]] + recomputes[c[again_]];
  if (c[tp_] > 0) {
    strategies += "[strategy.tensor_parallel]\nsize = " + std::to_string(tp_of(c)) + "\n";
    if (c[sequence_] == 1) strategies += "sequence_parallel = true\n";
  }
  if (c[ep_] > 0) strategies += "[strategy.expert_parallel]\nsize = " + std::to_string(ep_of(c)) + "\n";
  INFO(family.plugin << " on " << world_of(c) << " ranks, adapters " << c[adapters_] << "\n" << strategies);
  const auto model = model_with(family, c[adapters_] == 1);
  const auto split = run(model + strategies, world_of(c), precision);
  CHECK(differences(split, alone(model, precision), precision.tolerance) == "");
}

}  // namespace

TEST_CASE("float64: a pairwise cover of strategies together, of a mixture", "[matrix][train]") {
  for (const auto& choice : pairwise(levels, allowed)) check(mixture(), choice);
}

TEST_CASE("float64: tensor and sequence parallelism with a dense model's adapters", "[matrix][train]") {
  check(dense(), {2, 1, 0, 0, 1, 0, 0});
  check(dense(), {2, 2, 0, 1, 1, 0, 0});
}

TEST_CASE("float64: tensor and sequence parallelism with adapters of models with q, k and v in one module",
          "[matrix][train]") {
  for (std::size_t family = 0; family < 2; ++family) {
    check(families()[family], {1, 1, 0, 0, 1, 0, 0});
    check(families()[family], {1, 2, 0, 1, 1, 1, 1});
  }
}

TEST_CASE("float64: eight ranks that split a model, with adapters", "[matrix][train]") {
  check(llama_of_eight_heads(), {2, 3, 0, 1, 1, 1, 2});
  check(mixtral_of_eight_heads(), {2, 3, 0, 1, 1, 5, 0});
}

TEST_CASE("fp32: strategies together stay near one rank", "[matrix][train]") {
  check(mixture(), {1, 1, 1, 1, 1, 0, 1}, float32);
  check(dense(), {1, 1, 0, 1, 1, 1, 0}, float32);
}

TEST_CASE("float64: all ways to compose strategies", "[.][full][matrix][train]") {
  auto all = levels;
  all[tp_] = 4;
  each_choice(all, [](const Choice& choice) {
    if (!allowed(choice)) return;
    const bool of_eight = tp_of(choice) == 8;
    check(of_eight ? mixtral_of_eight_heads() : mixture(), choice);
    if (choice[ep_] == 0) check(of_eight ? llama_of_eight_heads() : dense(), choice);
  });
}

}  // namespace composition_test
