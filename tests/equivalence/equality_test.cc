// One run, many layouts: world sizes, sharding, accumulation and dropout must not change what is learnt.
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/pairwise.h"

namespace equality_test {

using namespace capstan;
using testing::Choice;
using testing::differences;
using testing::train;
using testing::TrainResult;

namespace {

// float64 sums in another order differ by some 1e-16 per operation; 20 steps of AdamW amplify that to below 1e-12
// here. 1e-10 is what the project promises.
constexpr double tolerance = 1e-10;
// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
constexpr std::int64_t few_steps = 3, many_steps = 20;

std::string fsdp(const std::string& mode) { return "[strategy.fsdp]\nmode = \"" + mode + "\"\n"; }

enum Factor : std::size_t { dropout_, accumulation_, ranks_, mode_ };
const std::vector<std::string> dropouts{"0.0", "0.2"};
const std::vector<std::string> accumulations{"1", "4"};
const std::vector<int> worlds{1, 2, 3, 6};
const std::vector<std::string> modes{"full_shard", "no_shard"};
const std::vector<std::size_t> levels{dropouts.size(), accumulations.size(), worlds.size(), modes.size()};

// One rank without accumulation and sharding is the reference itself.
bool allowed(const Choice& c) { return worlds[c[ranks_]] > 1 || c[accumulation_] == 1 || c[mode_] == 0; }

const TrainResult& reference_of(const std::string& dropout, std::int64_t steps) {
  static std::map<std::pair<std::string, std::int64_t>, TrainResult> references;
  const std::pair key(dropout, steps);
  if (!references.contains(key)) references[key] = train({.overrides = {dropout}, .steps = steps});
  return references.at(key);
}

void check(const Choice& c, std::int64_t steps = few_steps) {
  const auto dropout = "model.dropout=" + dropouts[c[dropout_]];
  const auto accumulation = "train.accumulation=" + accumulations[c[accumulation_]];
  INFO(dropout << " " << accumulation << " world " << worlds[c[ranks_]] << " " << modes[c[mode_]]);
  const auto run = train({.world = worlds[c[ranks_]],
                          .config = fsdp(modes[c[mode_]]),
                          .overrides = {dropout, accumulation},
                          .steps = steps});
  CHECK(differences(run, reference_of(dropout, steps), tolerance) == "");
}

}  // namespace

TEST_CASE("float64: a pairwise cover of layouts, each of which learns the same as one rank without sharding",
          "[matrix][train]") {
  for (const auto& choice : testing::pairwise(levels, allowed)) check(choice);
}

TEST_CASE("float64: after many steps a layout is still where one rank is, which has learned", "[matrix][train]") {
  check({1, 1, 2, 0}, many_steps);
  const auto& losses = reference_of("model.dropout=" + dropouts[1], many_steps).losses;
  CHECK(losses.back() < 0.8 * losses.front());
}

TEST_CASE("float64: every layout learns the same as one rank without sharding", "[.][full][matrix][train]") {
  testing::each_choice(levels, [](const Choice& choice) {
    if (allowed(choice)) check(choice, many_steps);
  });
}

TEST_CASE("fp32, deterministic, same world size: full_shard and no_shard are bit-equal", "[matrix][train]") {
  const int world = GENERATE(1, 2, 3, 6);
  const std::string accumulation = GENERATE(as<std::string>(), "1", "4");
  const std::string reduce = GENERATE(as<std::string>(), "step", "micro_step");
  if (accumulation == "1" && reduce == "step") return;  // the same as micro_step
  const std::vector<std::string> overrides{"train.precision=fp32", "run.deterministic=true", "train.reduce=" + reduce,
                                           "train.accumulation=" + accumulation, "model.dropout=0.1"};
  const auto run = [&](const char* mode) {
    return train({.world = world, .config = fsdp(mode), .overrides = overrides, .steps = few_steps});
  };
  INFO("world " << world << " accumulation " << accumulation << " reduce " << reduce);
  CHECK(differences(run("full_shard"), run("no_shard"), 0) == "");
}

}  // namespace equality_test
