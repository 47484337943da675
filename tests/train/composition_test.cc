// Strategies together: tensor x expert parallelism x adapters x sharding x recompute learn what one rank does.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/compositions.h"
#include "support/pairwise.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t steps = 10;
// float64 sums in another order, amplified by AdamW: what the project promises.
constexpr double tolerance = 1e-10;

enum Factor : std::size_t { ranks_, tp_, ep_, sequence_, adapters_, data_, again_ };

const std::vector<std::string> data_modes{
    "[strategy.fsdp]\n",
    "[strategy.zero]\nstage = 2\n",
    "[strategy.zero]\nstage = 3\nbucket_size = 2500\noffload_optimizer = \"cpu\"\n",
    "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 1\n",
    "",
};
const std::vector<std::string> recomputes{"", "[strategy.recompute]\n",
                                          "[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n"};
// ranks 2, 4, 8; tp and ep 1, 2, 4
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

const Run& alone(const Family& family, bool with_adapters) {
  static std::map<std::pair<std::string, bool>, Run> runs;
  const auto found = runs.find({family.plugin, with_adapters});
  if (found != runs.end()) return found->second;
  auto run =
      train({.world = 1, .config = model_with(family, with_adapters), .overrides = {same_micro_steps}, .steps = steps});
  REQUIRE(run.losses.back() < run.losses.front());
  return runs[{family.plugin, with_adapters}] = std::move(run);
}

void check(const Family& family, const Choice& c) {
  auto strategies = data_modes[c[data_]] + recomputes[c[again_]];
  if (c[tp_] > 0) {
    strategies += "[strategy.tensor_parallel]\nsize = " + std::to_string(tp_of(c)) + "\n";
    if (c[sequence_] == 1) strategies += "sequence_parallel = true\n";
  }
  if (c[ep_] > 0) strategies += "[strategy.expert_parallel]\nsize = " + std::to_string(ep_of(c)) + "\n";
  INFO(family.plugin << " on " << world_of(c) << " ranks, adapters " << c[adapters_] << "\n" << strategies);
  const auto run = train({.world = world_of(c),
                          .config = model_with(family, c[adapters_] == 1) + strategies,
                          .overrides = {same_micro_steps},
                          .steps = steps});
  CHECK(differences(run, alone(family, c[adapters_] == 1), tolerance) == "");
}

}  // namespace

TEST_CASE("float64: a pairwise cover of strategies together, of a mixture", "[matrix]") {
  for (const auto& choice : pairwise(levels, allowed)) check(mixture(), choice);
}

TEST_CASE("float64: tensor x expert parallelism x data modes", "[matrix]") {
  for (const std::size_t tp : {1, 2}) {
    for (const std::size_t ep : {1, 2}) {
      for (std::size_t data = 0; data < 3; ++data) {
        const Choice choice{2, tp, ep, 0, 0, data, 0};
        if (allowed(choice)) check(mixture(), choice);
      }
    }
  }
}

TEST_CASE("float64: tensor and sequence parallelism beside adapters", "[matrix]") {
  for (const std::size_t tp : {1, 2}) {
    for (const std::size_t sequence : {0, 1}) {
      check(dense(), {2, tp, 0, sequence, 1, 0, 0});
      check(mixture(), {2, tp, 0, sequence, 1, 1, 0});
    }
  }
}

TEST_CASE("float64: expert parallelism, adapters and recompute", "[matrix]") {
  for (const std::size_t ep : {1, 2}) {
    for (std::size_t again = 0; again < recomputes.size(); ++again) check(mixture(), {2, 0, ep, 0, 1, 0, again});
  }
}

TEST_CASE("float64: all ways to compose strategies", "[.][full][matrix]") {
  each_choice(levels, [](const Choice& choice) {
    if (!allowed(choice)) return;
    check(mixture(), choice);
    if (choice[ep_] == 0) check(dense(), choice);
  });
}
