// The same run under every mode of fsdp, every stage of zero, with and without offload, recompute and prefetch.
#include <capstan_catch.h>

#include <cmath>
#include <map>

#include "support/sharding_cases.h"
#include "support/small_run.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t steps = 10;
// 21 units of sums in float64, whose order differs between layouts: what the project promises.
constexpr double tolerance = 1e-10;

const std::vector<std::string> small{"model.dropout=0.1", "train.max_steps=10", "train.global_batch=48"};

std::vector<std::string> with(const std::vector<std::string>& more) {
  auto all = small;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void check_close(const SmallRun& run, const SmallRun& reference) {
  CHECK(gradient_differences(run, reference, tolerance) == "");
  REQUIRE(run.losses.size() == reference.losses.size());
  for (std::size_t s = 0; s < run.losses.size(); ++s) {
    CHECK(std::abs(run.losses[s] - reference.losses[s]) <= tolerance * reference.losses[s]);
    CHECK(std::abs(run.norms[s] - reference.norms[s]) <= tolerance * reference.norms[s]);
  }
}

void check_float64(const Choice& choice) {
  static const SmallRun reference = run_small(1, with({}), steps);
  const auto c = sharding_case(choice);
  INFO(c.name);
  check_close(run_small(c.world, with(c.overrides), steps, c.strategy), reference);
}

// Bits are promised between modes with the same number of ranks and the same `reduce`, except hybrid's sum in two
// levels. The reference is the run without any strategy.
void check_bits(const Choice& choice) {
  const auto c = sharding_case(choice);
  if (c.hybrid) return;
  INFO(c.name);
  static std::map<std::pair<int, std::size_t>, SmallRun> references;
  const std::vector<std::string> fp32{"train.precision=fp32", "run.deterministic=true"};
  auto overrides = with(c.overrides);
  overrides.insert(overrides.end(), fp32.begin(), fp32.end());
  auto& reference = references[{c.world, choice[reduce_]}];
  if (reference.losses.empty()) reference = run_small(c.world, overrides, steps);
  const auto run = run_small(c.world, overrides, steps, c.strategy);
  CHECK(run.losses == reference.losses);
  CHECK(run.norms == reference.norms);
  for (const auto& [name, weight] : reference.weights) {
    INFO(name);
    CHECK(at::equal(run.weights.at(name), weight));
  }
}

}  // namespace

TEST_CASE("float64: a pairwise cover of the sharding matrix learns what one rank does", "[matrix]") {
  for (const auto& choice : pairwise(sharding_levels(), sharding_allowed)) check_float64(choice);
}

TEST_CASE("fp32, deterministic: a pairwise cover of the sharding matrix is bit-equal to no strategy", "[matrix]") {
  for (const auto& choice : pairwise(sharding_levels(), sharding_allowed)) check_bits(choice);
}

TEST_CASE("float64 and fp32: the whole sharding matrix", "[.][full][matrix]") {
  each_choice(sharding_levels(), [](const Choice& choice) {
    if (!sharding_allowed(choice)) return;
    check_float64(choice);
    check_bits(choice);
  });
}
