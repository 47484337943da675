// What ranks learn that split the model is what a single rank learns.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/tensor_cases.h"

namespace equality_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
constexpr std::int64_t steps = 3;
// Sums in another order differ by some 1e-16 a term, and AdamW amplifies that: what the project promises.
constexpr double tolerance = 1e-10;

TrainResult run(std::size_t family, int world, const std::string& strategy, const std::vector<std::string>& overrides) {
  Setting setting{.world = world, .overrides = overrides, .steps = steps};
  setting.config = family_config(tensor_families()[family]) + strategy;
  return train(setting);
}

const TrainResult& alone(std::size_t family) {
  static std::map<std::size_t, TrainResult> runs;
  const auto found = runs.find(family);
  if (found != runs.end()) return found->second;
  return runs[family] = run(family, 1, "", {same_micro_steps});
}

void check(const Choice& choice) {
  const auto c = tensor_case(choice);
  INFO(c.name);
  CHECK(differences(run(c.family, c.world, c.strategy, c.overrides), alone(c.family), tolerance) == "");
}

}  // namespace

TEST_CASE("float64: the families learn, so that the matrix compares something", "[matrix]") {
  for (std::size_t family = 0; family < tensor_families().size(); ++family) {
    INFO(tensor_families()[family].plugin);
    const auto& reference = alone(family);
    CHECK(reference.losses.back() < reference.losses.front());
    // A group of which all gradients are rounding would be equal to anything.
    for (const auto& [name, members] : reference.fused) {
      double largest = 0;
      for (const auto& member : members)
        largest = std::max(largest, reference.gradients.at(member).abs().max().item<double>());
      INFO(name);
      CHECK(largest > 1e-6);
    }
  }
}

TEST_CASE("float64: a pairwise cover of tensor parallelism learns what one rank does", "[matrix]") {
  for (const auto& choice : pairwise(tensor_levels(), tensor_allowed)) check(choice);
}

TEST_CASE("float64: all of tensor parallelism's matrix", "[.][full][matrix]") {
  each_choice(tensor_levels(), [](const Choice& choice) {
    if (tensor_allowed(choice)) check(choice);
  });
}

// Rounding of 1e-7 a term, and AdamW's amplification of it.
TEST_CASE("fp32: split ranks stay near one rank", "[matrix]") {
  for (std::size_t family = 0; family < families().size(); ++family) {
    for (const std::string more : {"", "sequence_parallel = true\n"}) {
      INFO(families()[family].plugin << " " << more);
      const auto one = run(family, 1, "", {same_micro_steps, "train.precision=fp32"});
      const auto split = run(family, 4, "[strategy.tensor_parallel]\nsize = 2\n" + more + "[strategy.fsdp]\n",
                             {same_micro_steps, "train.precision=fp32"});
      CHECK(differences(split, one, 1e-4) == "");
    }
  }
}

TEST_CASE("float64: sequence parallelism on rows that leave some ranks no position", "[matrix]") {
  for (const std::string length : {"3", "6"}) {  // rows of 2 and of 5 columns on 4 ranks
    const std::vector<std::string> rows{same_micro_steps, "data.length=" + length, "train.pad_to_multiple=1"};
    for (std::size_t family = 0; family < tensor_families().size(); ++family) {
      INFO(tensor_families()[family].plugin << ", samples of " << length << " tokens");
      const auto split = run(family, 4, "[strategy.tensor_parallel]\nsize = 4\nsequence_parallel = true\n", rows);
      CHECK(differences(split, run(family, 1, "", rows), tolerance) == "");
    }
  }
}

}  // namespace equality_test
