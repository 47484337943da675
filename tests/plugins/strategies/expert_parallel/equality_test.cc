// Training a mixture on ranks that share its experts learns what one rank learns from the same micro-steps.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "plugins/strategies/expert_parallel/mixtures.h"
#include "support/pairwise.h"

namespace equality_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
constexpr std::int64_t steps = 3;
// Sums in float64 in another order: what the project promises.
constexpr double tolerance = 1e-10;

enum Factor : std::size_t { ranks_, ep_, data_, recompute_, accumulation_, factors_ };

const std::vector<int> worlds{2, 4, 8};
const std::vector<int> sizes{1, 2, 4};
const std::vector<std::string> accumulations{"1", "2", "2 micro_step"};
const std::vector<std::string> recomputes{"", "[strategy.recompute]\n", "[strategy.recompute]\nregions = [\"mlp\"]\n"};

std::vector<std::size_t> levels() { return {3, 3, 8, 3, 3}; }
bool allowed(const Choice& c) { return sizes[c[ep_]] <= worlds[c[ranks_]]; }

std::string data_strategy(std::size_t way, int data_ranks) {
  static const std::vector<std::string> modes{"full_shard", "shard_grad_op", "no_shard"};
  if (way < 3) return "[strategy.fsdp]\nmode = \"" + modes[way] + "\"\n";
  if (way < 7) return "[strategy.zero]\nstage = " + std::to_string(way - 3) + "\n";
  return "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = " + std::string(data_ranks % 2 == 0 ? "2" : "1") +
         "\n";
}

std::vector<std::string> overrides(const std::string& accumulation) {
  std::vector<std::string> list{"train.accumulation=" + accumulation.substr(0, 1)};
  if (accumulation.size() > 1) list.emplace_back("train.reduce=micro_step");
  return list;
}

const TrainResult& reference(const std::string& accumulation) {
  static std::map<std::string, TrainResult> runs;
  auto& run = runs[accumulation];
  if (run.losses.empty()) run = train({.config = mixture(), .overrides = overrides(accumulation), .steps = steps});
  return run;
}

void check(const Choice& c) {
  const auto world = worlds[c[ranks_]], ep = sizes[c[ep_]];
  const auto strategies = experts_on(ep) + data_strategy(c[data_], world / ep) + recomputes[c[recompute_]];
  const auto& accumulation = accumulations[c[accumulation_]];
  INFO(world << " ranks, accumulation " << accumulation << "\n" << strategies);
  const auto run =
      train({.world = world, .config = mixture() + strategies, .overrides = overrides(accumulation), .steps = steps});
  CHECK(differences(run, reference(accumulation.substr(0, 1)), tolerance) == "");
}

}  // namespace

TEST_CASE("float64: a pairwise cover of ranks, experts' ranks, data strategies, recompute and accumulation",
          "[matrix]") {
  REQUIRE(reference("1").losses.back() < reference("1").losses.front());
  for (const auto& choice : pairwise(levels(), allowed)) check(choice);
}

TEST_CASE("float64: all of it", "[.][full][matrix]") {
  each_choice(levels(), [](const Choice& c) {
    if (allowed(c)) check(c);
  });
}

TEST_CASE("prefetch, resharding, buckets of several units, offload and rank 0's values") {
  const std::vector<std::string> ways{
      "[strategy.fsdp]\nmode = \"full_shard\"\nreshard_size = 2\nsync_module_states = true\n",
      "[strategy.fsdp]\nmode = \"full_shard\"\nwrap = 2\nlimit_all_gathers = false\ncpu_offload = true\n",
      "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\nbucket_size = 4000\n"};
  for (const auto& way : ways) {
    INFO(way);
    const auto run = train({.world = 4, .config = mixture() + experts_on(2) + way, .steps = steps});
    CHECK(differences(run, reference("1"), tolerance) == "");
  }
}

// The router learns only from the balancing loss: a single choice always weighs 1.
TEST_CASE("one expert a token: some of eight experts get nothing") {
  const std::vector<std::string> few{"model.num_experts=8", "model.experts_per_token=1", "train.global_batch=8"};
  const auto alone = train({.config = mixture(), .overrides = few, .steps = steps});
  for (const int ep : {2, 4, 8}) {
    INFO("ep " << ep);
    const auto run = train(
        {.world = 8, .config = mixture() + experts_on(ep) + "[strategy.fsdp]\n", .overrides = few, .steps = steps});
    CHECK(differences(run, alone, tolerance) == "");
  }
}

TEST_CASE("fp32: the same within rounding") {
  const std::vector<std::string> single{"train.precision=fp32"};
  const auto alone = train({.config = mixture(), .overrides = single, .steps = 3});
  const auto run = train({.world = 4, .config = mixture() + experts_on(2), .overrides = single, .steps = 3});
  // Sums of some hundred terms in float32, and AdamW's division by gradients near 0 in three steps.
  CHECK(differences(run, alone, 1e-4) == "");
}

}  // namespace equality_test
