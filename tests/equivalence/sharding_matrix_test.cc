// The same run under every mode of fsdp, every stage of zero, with and without offload, recompute, prefetch and loss
// scale, in float64 and in deterministic fp32.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "support/sharding_cases.h"

namespace sharding_matrix_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

// The first step has no state and no recorded order of units, the second makes both, and the third uses them. A scale
// that overflows skips about six steps before one that counts.
std::int64_t steps_of(std::size_t scale) { return scale == 2 ? 10 : 3; }
// Some ten units of sums in float64, whose order differs between layouts: what the project promises.
constexpr double tolerance = 1e-10;
// The GPT with sizes that no number of ranks divides: an odd vocabulary, three heads, and a feed-forward layer of three
// rows, fewer than four ranks.
const std::string model =
    "[model]\nplugin = \"gpt\"\nvocab_size = 261\nhidden_size = 12\nnum_layers = 2\nnum_heads = 3\nff_dim = 3\n"
    "seq_length = 24\ninit_std = 0.2\ndropout = 0.1\n";

using Overrides = std::vector<std::string>;

Overrides both(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A fixed scale shows only in the gradients, so they are compared without it. Where steps overflow there is nothing to
// compare in them, and a norm that is not finite says no more than that.
TrainResult comparable(TrainResult run, std::size_t scale) {
  if (scale == 1) {
    for (auto& [name, gradient] : run.gradients) gradient = gradient / fixed_loss_scale;
  } else if (scale == 2) {
    run.gradients.clear();
    std::erase_if(run.disagreements, [](const auto& copy) { return copy.first.rfind("gradient", 0) == 0; });
    std::replace_if(
        run.norms.begin(), run.norms.end(), [](double norm) { return !std::isfinite(norm); }, 0.0);
  }
  return run;
}

// Without a strategy. A power of two is compared with no scale at all; skipped steps with steps skipped alike.
TrainResult train_reference(int world, Overrides overrides, const ShardingCase& c, std::size_t scale) {
  const Setting plain{.world = world, .config = model, .overrides = overrides, .steps = steps_of(scale)};
  if (scale < 2) return train(plain);
  auto run = comparable(
      train(
          {.world = world, .config = model, .overrides = both(std::move(overrides), c.scaling), .steps = plain.steps}),
      2);
  CHECK(differences(run, comparable(train(plain), 2), tolerance) != "");  // steps were skipped
  CHECK(run.losses.back() < run.losses.front());                          // and not all of them
  return run;
}

void check_float64(const Choice& choice) {
  static std::map<bool, TrainResult> references;
  const auto c = sharding_case(choice);
  INFO(c.name);
  const bool overflows = choice[scale_] == 2;
  if (references.count(overflows) == 0) references[overflows] = train_reference(1, {}, c, choice[scale_]);
  const auto run = train({.world = c.world,
                          .config = model + c.strategy,
                          .overrides = both(c.overrides, c.scaling),
                          .steps = steps_of(choice[scale_])});
  CHECK(differences(comparable(run, choice[scale_]), references[overflows], tolerance) == "");
}

// Bits are promised between modes with the same number of ranks and the same `reduce`, except hybrid's sum in two
// levels. The reference is the run without any strategy.
void check_bits(const Choice& choice) {
  const auto c = sharding_case(choice);
  INFO(c.name);
  const auto overrides = both(c.overrides, {"train.precision=fp32", "run.deterministic=true"});
  static std::map<std::tuple<int, std::size_t, bool>, TrainResult> references;
  auto& reference = references[{c.world, choice[reduce_], choice[scale_] == 2}];
  if (reference.losses.empty()) reference = train_reference(c.world, overrides, c, choice[scale_]);
  const auto run = train({.world = c.world,
                          .config = model + c.strategy,
                          .overrides = both(overrides, c.scaling),
                          .steps = steps_of(choice[scale_])});
  CHECK(differences(comparable(run, choice[scale_]), reference, 0) == "");
}

// The matrix with the precision as its last factor: float64, fp32.
constexpr auto precision_ = static_cast<std::size_t>(factors_);

std::vector<std::size_t> levels() {
  auto all = sharding_levels();
  all.push_back(2);
  return all;
}

bool allowed(const Choice& c) { return sharding_allowed(c) && (c[precision_] == 0 || !sharding_case(c).hybrid); }

void check(const Choice& c) { c[precision_] == 0 ? check_float64(c) : check_bits(c); }

}  // namespace

TEST_CASE("a pairwise cover of the sharding matrix: one rank's numbers in float64, and no strategy's bits in fp32",
          "[matrix][train][shard]") {
  for (const auto& choice : pairwise(levels(), allowed)) check(choice);
}

TEST_CASE("float64 and fp32: the whole sharding matrix", "[.][full][matrix][train][shard]") {
  each_choice(levels(), [](const Choice& choice) {
    if (allowed(choice)) check(choice);
  });
}

}  // namespace sharding_matrix_test
