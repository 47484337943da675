// What `auto` takes, and where it is refused.
#include <capstan_catch.h>

#include <string>
#include <utility>
#include <vector>

#include "predict/dry_job.h"
#include "predict/settle.h"
#include "support/folder.h"

namespace auto_test {

using namespace capstan;

namespace {

struct Decided {
  std::string summary, faults;
  std::int64_t peak = 0, host = 0;
};

Decided decided(const std::string& device, std::int64_t room, const std::string& table = "auto = true\n") {
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("job.toml", testing::small(testing::llama, "bf16", "[strategy.recompute]\n" + table));
  request.overrides = {"model.num_layers=8", "model.ff_dim=4096"};
  request.device = device;
  request.activations = true;
  request.gpu_room = room;
  plugin::Host host;
  Diagnostics faults;
  const auto job = job::make_job(request, host, faults);
  Decided result;
  for (const auto& fault : faults.list()) result.faults += fault.text() + "\n";
  if (!job) return result;
  result.summary = job->ranks_summary();
  result.peak = layout::total_bytes(job->prediction.footprints, "cuda");
  result.host = layout::total_bytes(job->prediction.footprints, "host");
  return result;
}

}  // namespace

TEST_CASE("auto takes the least that fits with 5 % to spare, and says what it took") {
  const auto peak_of = [](const std::string& table) { return decided("cuda", 0, table).peak; };
  const std::vector<std::pair<std::string, std::string>> steps{
      {"enabled = false\n", "nothing"},
      {"regions = [\"mlp\"]\n", "recompute each feed-forward"},
      {"keep_attention = true\n", "recompute each unit but its attention"},
      {"every = 1\n", "recompute each unit"},
      {"offload = 1.0\ntile_tokens = 8192\n", "recompute each unit, by tiles, inputs in host memory"}};
  auto before = std::int64_t{1} << 60;
  for (const auto& [table, words] : steps) {
    const auto peak = peak_of(table);
    INFO(words);
    CHECK(peak < before);
    const auto chosen = decided("cuda", peak + peak / 20);
    INFO(chosen.faults);
    CHECK(chosen.peak == peak);
    CHECK_THAT(chosen.summary,
               Contains("strategy.recompute.auto: " + words + ", and the predicted ") && Contains(" fit into "));
    before = peak;
  }
  CHECK(decided("cuda", 1).peak == before);
  CHECK_THAT(decided("cuda", 1).summary, Contains(" do not fit well into 1 B"));
  CHECK(decided("cuda", 1).host > decided("cuda", std::int64_t{1} << 60).host);
}

TEST_CASE("options that are tried win over what auto took") {
  const test::Folder folder;
  setup::JobRequest request;
  request.file =
      folder.write("job.toml", testing::small(testing::llama, "bf16", "[strategy.recompute]\nauto = true\n"));
  request.overrides = {"model.num_layers=8", "model.ff_dim=4096"};
  request.device = "cuda";
  request.gpu_room = std::int64_t{1} << 60;
  plugin::Host host;
  Diagnostics faults;
  const auto job = job::make_job(request, host, faults);
  REQUIRE(job);
  const auto& settled = job->config.request.settled.values;
  REQUIRE(settled.size() == 2);  // auto and enabled, which are false
  for (const auto& value : settled) {
    CHECK(value.value == config::Value(false));
    CHECK_THAT(value.origin.text(), Contains("job.toml:"));
  }
  const auto peak = [&](const std::vector<std::string>& overrides) {
    const auto other = predict::predict_with(job->config.request, overrides, host);
    REQUIRE(other);
    return layout::total_bytes(other->prediction.footprints, "cuda");
  };
  CHECK(peak({"strategy.recompute.every=1"}) == peak({}));  // it stays off
  CHECK(peak({"strategy.recompute.enabled=true", "strategy.recompute.every=1"}) < peak({}));
}

TEST_CASE("auto is refused where nothing can be decided") {
  CHECK_THAT(decided("cpu", 0).faults,
             Contains("strategy.recompute.auto on CPUs: memory of a micro-step is predicted only"));
  CHECK_THAT(decided("cuda", 0).faults,
             Contains("strategy.recompute.auto: it is not known into which GPU") && Contains("--gpu"));
}

}  // namespace auto_test
