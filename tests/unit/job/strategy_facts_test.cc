// What a strategy is told when it says what memory it will take.
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/job.h"
#include "support/small_run.h"

namespace strategy_facts_test {

using namespace capstan;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*table*/) {}
};

// Keeps two numbers of 32 bits for each parameter that this rank updates, and a byte where checkpoints are written.
class Keeps : public strategy::Strategy {
 public:
  explicit Keeps(config::Options<NoOptions> /*options*/) {}
  std::vector<layout::Footprint> footprint(const strategy::Facts& facts) const override {
    std::int64_t elements = 0;
    for (const auto& part : facts.updated) elements += part.box.numel();
    return {{"keeps state", elements * 8, facts.device, "always"},
            {"keeps checkpoints", facts.saves_checkpoints ? 1 : 0, facts.device, "always"}};
  }
};

job::Job prepare(int ranks, const std::string& tables, std::vector<std::string> overrides = {}) {
  static plugin::Host host;
  static const bool once = (host.add(testing::type<strategy::Strategy, Keeps, NoOptions>("strategy", "keeps")), true);
  CHECK(once);
  setup::JobRequest request;
  request.file = testing::small_config("[strategy.keeps]\n" + tables);
  request.world_size = ranks;
  request.overrides = std::move(overrides);
  return testing::job_of(request, host);
}

std::int64_t bytes_of(const job::Job& job, const std::string& part) {
  for (const auto& footprint : job.prediction.footprints) {
    if (footprint.part == part) return footprint.bytes;
  }
  FAIL(part << " is not predicted");
  return 0;
}

}  // namespace

TEST_CASE("a strategy is told the boxes that this rank updates, before there are any") {
  const auto whole = bytes_of(prepare(1, ""), "keeps state");
  CHECK(whole > 0);
  const auto half = bytes_of(prepare(2, "[strategy.fsdp]\n"), "keeps state");
  CHECK(half < whole);
  CHECK(half >= whole / 2);
  // Adapters are all that is updated.
  const auto adapters = bytes_of(prepare(1, "[strategy.lora]\nrank = 2\ntargets = [\"linear_qkv\"]\n"), "keeps state");
  CHECK(adapters < whole / 4);
  CHECK(adapters > 0);
}

TEST_CASE("a strategy is told whether the run saves checkpoints") {
  CHECK(bytes_of(prepare(1, "", {"checkpoint.every_steps=1"}), "keeps checkpoints") == 1);
  CHECK(bytes_of(prepare(1, "", {"checkpoint.every_steps=0", "checkpoint.every_epoch=false"}), "keeps checkpoints") ==
        0);
}

}  // namespace strategy_facts_test
