// One run, many layouts: world sizes, sharding, accumulation and dropout must not change what is learnt.
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace equality_test {

using namespace capstan;
using testing::differences;
using testing::train;
using testing::TrainResult;

namespace {

// float64 sums in another order differ by some 1e-16 per operation; 20 steps of AdamW amplify that to below 1e-12
// here. 1e-10 is what the project promises.
constexpr double tolerance = 1e-10;

std::string fsdp(const std::string& mode) { return "[strategy.fsdp]\nmode = \"" + mode + "\"\n"; }

}  // namespace

TEST_CASE("float64: every layout learns the same as one rank without sharding", "[matrix][train]") {
  const std::string dropout = GENERATE(as<std::string>(), "0.0", "0.2");
  static std::map<std::string, TrainResult> references;  // Catch runs this body once a section
  if (!references.count(dropout)) references[dropout] = train({.overrides = {"model.dropout=" + dropout}});
  const auto& reference = references.at(dropout);
  REQUIRE(reference.losses.back() < 0.8 * reference.losses.front());
  for (const std::string accumulation : {"1", "4"}) {
    for (const int world : {1, 2, 3, 6}) {
      for (const std::string mode : {"full_shard", "no_shard"}) {
        if (world == 1 && accumulation == "1" && mode == "no_shard") continue;
        DYNAMIC_SECTION("dropout " << dropout << " accumulation " << accumulation << " world " << world << " "
                                   << mode) {
          const auto run = train({.world = world,
                                  .config = fsdp(mode),
                                  .overrides = {"model.dropout=" + dropout, "train.accumulation=" + accumulation}});
          CHECK(differences(run, reference, tolerance) == "");
        }
      }
    }
  }
}

TEST_CASE("fp32, deterministic, same world size: full_shard and no_shard are bit-equal", "[matrix][train]") {
  const int world = GENERATE(1, 2, 3, 6);
  const std::string accumulation = GENERATE(as<std::string>(), "1", "4");
  const std::string reduce = GENERATE(as<std::string>(), "step", "micro_step");
  if (accumulation == "1" && reduce == "step") return;  // the same as micro_step
  const std::vector<std::string> overrides{"train.precision=fp32", "run.deterministic=true", "train.reduce=" + reduce,
                                           "train.accumulation=" + accumulation, "model.dropout=0.1"};
  const auto run = [&](const char* mode) {
    return train({.world = world, .config = fsdp(mode), .overrides = overrides, .steps = 6});
  };
  INFO("world " << world << " accumulation " << accumulation << " reduce " << reduce);
  CHECK(differences(run("full_shard"), run("no_shard"), 0) == "");
}

}  // namespace equality_test
