// One run, many layouts: world sizes, sharding, accumulation and dropout must not change what is learnt.
#include <capstan_catch.h>
#include <unistd.h>

#include <fstream>

#include "support/small_run.h"
#include "train/schedule.h"

using namespace capstan;
using capstan::testing::distance;
using capstan::testing::run_small;
using capstan::testing::SmallRun;

namespace {

// float64 sums in another order differ by some 1e-16 per operation; 20 steps of AdamW amplify that to below 1e-12
// here. 1e-10 is what the project promises.
constexpr double tolerance = 1e-10;

void check_same(const SmallRun& run, const SmallRun& reference) {
  CHECK(testing::gradient_differences(run, reference, tolerance) == "");
  REQUIRE(run.losses.size() == reference.losses.size());
  for (std::size_t s = 0; s < run.losses.size(); ++s) {
    INFO("step " << s);
    CHECK(std::abs(run.losses[s] - reference.losses[s]) <= tolerance * reference.losses[s]);
    CHECK(std::abs(run.norms[s] - reference.norms[s]) <= tolerance * reference.norms[s]);
  }
}

}  // namespace

TEST_CASE("float64: every layout learns the same as one rank without sharding", "[matrix]") {
  const std::string dropout = GENERATE(as<std::string>(), "0.0", "0.2");
  const std::vector<std::string> base{"model.dropout=" + dropout};
  static std::map<std::string, SmallRun> references;  // Catch runs this body once a section
  if (!references.count(dropout)) references[dropout] = run_small(1, base, 20);
  const auto& reference = references.at(dropout);
  REQUIRE(reference.losses.back() < 0.8 * reference.losses.front());
  REQUIRE(reference.gradients.count("h.1.attn.k.bias") == 1);
  for (const std::string accumulation : {"1", "4"}) {
    for (const int world : {1, 2, 3, 4}) {
      for (const std::string mode : {"full_shard", "no_shard"}) {
        if (world == 1 && accumulation == "1" && mode == "no_shard") continue;
        DYNAMIC_SECTION("dropout " << dropout << " accumulation " << accumulation << " world " << world << " "
                                   << mode) {
          auto overrides = base;
          overrides.push_back("train.accumulation=" + accumulation);
          check_same(run_small(world, overrides, 20, "[strategy.fsdp]\nmode = \"" + mode + "\"\n"), reference);
        }
      }
    }
  }
}

TEST_CASE("fp32, deterministic, same world size: full_shard and no_shard are bit-equal", "[matrix]") {
  const int world = GENERATE(1, 2, 3, 4);
  const std::string accumulation = GENERATE(as<std::string>(), "1", "4");
  const std::string reduce = GENERATE(as<std::string>(), "step", "micro_step");
  if (accumulation == "1" && reduce == "step") return;  // the same as micro_step
  const std::vector<std::string> overrides{"train.precision=fp32", "run.deterministic=true", "train.reduce=" + reduce,
                                           "train.accumulation=" + accumulation, "model.dropout=0.1"};
  const auto sharded = run_small(world, overrides, 6, "[strategy.fsdp]\nmode = \"full_shard\"\n");
  const auto whole = run_small(world, overrides, 6, "[strategy.fsdp]\nmode = \"no_shard\"\n");
  INFO("world " << world << " accumulation " << accumulation << " reduce " << reduce);
  CHECK(sharded.losses == whole.losses);
  CHECK(sharded.norms == whole.norms);
  for (const auto& [name, weight] : whole.weights) {
    INFO(name);
    CHECK(at::equal(sharded.weights.at(name), weight));
  }
}
