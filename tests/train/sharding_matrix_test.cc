// The same run under every mode of fsdp, every stage of zero, with and without offload, recompute and prefetch.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/sharding_cases.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t steps = 10;
// Some ten units of sums in float64, whose order differs between layouts: what the project promises.
constexpr double tolerance = 1e-10;
// The GPT, of sizes that no number of ranks divides: an odd vocabulary, three heads, and a feed-forward layer of three
// rows, fewer than four ranks.
const std::string model =
    "[model]\nplugin = \"gpt\"\nvocab_size = 261\nhidden_size = 12\nnum_layers = 2\nnum_heads = 3\nff_dim = 3\n"
    "seq_length = 24\ninit_std = 0.2\ndropout = 0.1\n";

void check_float64(const Choice& choice) {
  static const Run reference = train({.config = model, .steps = steps});
  const auto c = sharding_case(choice);
  INFO(c.name);
  const auto run = train({.world = c.world, .config = model + c.strategy, .overrides = c.overrides, .steps = steps});
  CHECK(differences(run, reference, tolerance) == "");
}

// Bits are promised between modes with the same number of ranks and the same `reduce`, except hybrid's sum in two
// levels. The reference is the run without any strategy.
void check_bits(const Choice& choice) {
  auto c = sharding_case(choice);
  if (c.hybrid) return;
  INFO(c.name);
  for (const char* more : {"train.precision=fp32", "run.deterministic=true"}) c.overrides.emplace_back(more);
  static std::map<std::pair<int, std::size_t>, Run> references;
  auto& reference = references[{c.world, choice[reduce_]}];
  if (reference.losses.empty())
    reference = train({.world = c.world, .config = model, .overrides = c.overrides, .steps = steps});
  const auto run = train({.world = c.world, .config = model + c.strategy, .overrides = c.overrides, .steps = steps});
  CHECK(differences(run, reference, 0) == "");
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
