// Strategies together: what was saved in one layout continues in another, to the numbers of one uninterrupted rank.
#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <map>
#include <utility>

#include "support/compositions.h"

namespace composition_resume_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

// What a step leaves in the states counts in the next one: once before the resume, once in it and once after it.
constexpr std::int64_t steps = 4;
constexpr std::int64_t saved_after = 2;
// float64 sums in another order, amplified by AdamW: what the project promises.
constexpr double tolerance = 1e-10;

Setting setting(const Family& family, bool with_adapters, const Composition& composition) {
  return {.world = composition.world,
          .config = family_config(family) + (with_adapters ? adapters_of(family) : "") + composition.strategies,
          .overrides = {same_micro_steps},
          .steps = steps};
}

const TrainResult& alone(const Family& family, bool with_adapters) {
  static std::map<std::pair<std::string, bool>, TrainResult> runs;
  const auto found = runs.find({family.plugin, with_adapters});
  if (found != runs.end()) return found->second;
  return runs[{family.plugin, with_adapters}] = train(setting(family, with_adapters, compositions().front()));
}

// The weights at the end, each to the tolerance times its own largest: what the step's losses and norms do not show is
// whether each record's master and moments came back to where they belong. (No parameter here has a gradient that is
// only rounding, which AdamW would turn into updates: keys are rotated, so that their biases count.)
std::string weight_differences(const TrainResult& run, const TrainResult& reference) {
  std::string text;
  if (run.weights.size() != reference.weights.size()) text += "another number of records; ";
  for (const auto& [name, weight] : reference.weights) {
    const auto found = run.weights.find(name);
    if (found == run.weights.end()) {
      text += name + " is missing; ";
      continue;
    }
    const auto apart = (found->second - weight).abs().max().item<double>();
    if (!(apart <= tolerance * weight.abs().max().item<double>()))
      text += name + " by " + std::to_string(apart / weight.abs().max().item<double>() * 1e10) + "e-10; ";
  }
  return text;
}

void check(const Family& family, bool with_adapters, const Composition& before, const Composition& after) {
  INFO(family.plugin << (with_adapters ? " with adapters" : "") << " from " << before.name << " to " << after.name);
  const auto& reference = alone(family, with_adapters);
  const auto run =
      train_resumed(setting(family, with_adapters, before), saved_after, setting(family, with_adapters, after));
  CHECK(differences(run, reference, tolerance) == "");
  CHECK(weight_differences(run, reference) == "");
}

std::vector<Composition> of(const Family& family) {
  std::vector<Composition> list;
  std::copy_if(compositions().begin(), compositions().end(), std::back_inserter(list),
               [&](const auto& one) { return !one.needs_experts || family.plugin == "mixtral"; });
  return list;
}

// Each layout is left for another one and taken up from another one, `far` or next to it in the list; every second one
// with adapters, which of the two families' are not the same.
void check_cut(const Family& family, bool far) {
  const auto list = of(family);
  const std::size_t distance = far ? list.size() / 2 : 1;
  for (std::size_t i = 0; i < list.size(); ++i)
    check(family, (i % 2 == 1) == far, list[i], list[(i + distance) % list.size()]);
}

}  // namespace

TEST_CASE("float64: a mixture saved in one layout of strategies continues in another", "[matrix][train]") {
  check_cut(mixture(), false);
}

TEST_CASE("float64: a dense model saved in one layout of strategies continues in another", "[matrix][train]") {
  check_cut(dense(), true);
}

TEST_CASE("float64: every way from one layout of strategies to another", "[.][full][matrix][train]") {
  for (const auto* family : {&mixture(), &dense()}) {
    for (const bool with_adapters : {false, true}) {
      for (const auto& before : of(*family)) {
        for (const auto& after : of(*family)) check(*family, with_adapters, before, after);
      }
    }
  }
}

}  // namespace composition_resume_test
