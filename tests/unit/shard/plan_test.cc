// Which weights move together, and which buckets are offloaded.
#include "shard/plan.h"

#include <capstan_catch.h>

#include "shard/rig.h"

namespace plan_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

shard::EngineOptions on_two_ranks(int stage, int offload = 0) {
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
  set_stage(options.policy, stage, offload);
  return options;
}

std::vector<std::string> names(const shard::ShardPlan& plan) {
  std::vector<std::string> names;
  for (const auto& bucket : plan.buckets) names.push_back(bucket.name);
  return names;
}

}  // namespace

TEST_CASE("a bucket a unit, a tied weight's apart, in the order of first use") {
  const auto chain = rig_chain({});
  const auto plan = shard::make_plan(pointers(chain), on_two_ranks(3));
  CHECK(names(plan) == std::vector<std::string>{"table", "layer1", "layer2", "head"});
  CHECK(plan.buckets[0].runs.size() > 1);
  CHECK(plan.buckets[0].runs == std::vector<std::size_t>{0, 3});
  CHECK(plan.runs[3].buckets == std::vector<std::size_t>{0, 3});
  CHECK(plan.run_of_unit == std::vector<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("neighbouring units are joined by number or by size, frozen weights apart from trained ones") {
  const auto chain = rig_chain({.layer2_trains = false});
  auto options = on_two_ranks(3);
  options.policy.bucket_size.number = 3;
  const auto by_number = shard::make_plan(pointers(chain), options);
  REQUIRE(by_number.runs.size() == 2);
  CHECK(names(by_number) == std::vector<std::string>{"table", "table to layer2", "table to layer2", "head"});
  CHECK(by_number.buckets[1].trainable);
  CHECK(!by_number.buckets[2].trainable);
  options.policy.bucket_size = {strategy::BucketSize::By::at_most, 35 + 75};  // table and layer1; layer2 has 115
  CHECK(shard::make_plan(pointers(chain), options).runs.size() == 3);
  options.policy.bucket_size = {strategy::BucketSize::By::at_most, 1};  // at least one unit
  CHECK(shard::make_plan(pointers(chain), options).runs.size() == 4);
}

TEST_CASE("as few neighbours as have the number of parameters that is asked for; the last ones may have fewer") {
  const auto chain = rig_chain({});  // 35, 75 and 115 parameters, then the head
  const auto last_of_runs = [&](std::int64_t least) {
    auto options = on_two_ranks(3);
    options.policy.bucket_size = {strategy::BucketSize::By::at_least, least};
    std::vector<std::size_t> last;
    for (const auto& run : shard::make_plan(pointers(chain), options).runs) last.push_back(run.last);
    return last;
  };
  CHECK(last_of_runs(1) == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(last_of_runs(36) == std::vector<std::size_t>{1, 2, 3});
  CHECK(last_of_runs(110) == std::vector<std::size_t>{1, 2, 3});
  CHECK(last_of_runs(111) == std::vector<std::size_t>{2, 3});
  CHECK(last_of_runs(1'000'000) == std::vector<std::size_t>{3});
}

TEST_CASE("backward reaches a run where it or one before it trains") {
  const auto chain = rig_chain({});
  for (auto& record : chain[0]->weights().front()->records()) record.trainable = false;
  for (const auto& weight : chain[1]->weights()) {
    for (auto& record : weight->records()) record.trainable = false;
  }
  auto options = on_two_ranks(0);
  const auto plan = shard::make_plan(pointers(chain), options);
  CHECK(!plan.runs[0].trainable());
  CHECK(!plan.runs[1].trainable());
  CHECK(plan.runs[2].trainable());
  CHECK(plan.runs[3].trainable());
  CHECK(plan.runs[3].last_in_backward == 3);
  options.policy.bucket_size.number = 4;
  const auto joined = shard::make_plan(pointers(chain), options);
  REQUIRE(joined.runs.size() == 1);
  CHECK(joined.runs[0].trainable());
  CHECK(joined.runs[0].last_in_backward == 2);
}

TEST_CASE("offload_ratio keeps the first buckets on the device, and their records say so") {
  const auto chain = rig_chain({});
  auto options = on_two_ranks(2, 1);
  // Another type of device than the host's, so that records can say which; nothing is allocated.
  options.precision.device = c10::Device(c10::DeviceType::Meta);
  for (const auto& [ratio, offloaded] : std::vector<std::pair<double, std::vector<bool>>>{
           {1.0, {true, true, true, true}}, {0.5, {false, false, true, true}}, {0.0, {false, false, false, false}}}) {
    options.policy.offload_ratio = ratio;
    const auto plan = shard::make_plan(pointers(chain), options);
    for (std::size_t b = 0; b < offloaded.size(); ++b) {
      INFO("ratio " << ratio << " bucket " << b);
      CHECK(plan.buckets[b].on_host == offloaded[b]);
      const auto& record = plan.buckets[b].weights.front().weight->records().front();
      CHECK(record.param.device.is_cpu() == offloaded[b]);
      CHECK(record.optim.device.is_cpu() == offloaded[b]);
    }
  }
}

TEST_CASE("a buffer is held by each rank in float32 at least, apart from frozen weights") {
  const auto chain = rig_chain({.layer2_trains = false});
  auto weights = chain[2]->weights();
  auto& buffer = weights.back()->records().front();
  buffer.usage = layout::Usage::buffer;
  for (const auto compute : {at::kBFloat16, at::kFloat, at::kDouble}) {
    auto options = on_two_ranks(3, /*offload=*/2);
    options.precision.compute = compute;
    const auto plan = shard::make_plan(pointers(chain), options);
    const auto wide = compute == at::kDouble ? at::kDouble : at::kFloat;
    std::size_t found = 0;
    for (const auto& bucket : plan.buckets) {
      const bool has = std::any_of(bucket.weights.begin(), bucket.weights.end(),
                                   [&](const auto& planned) { return planned.weight == weights.back(); });
      if (!has) continue;
      ++found;
      CHECK(bucket.parameters.full == wide);
      CHECK_FALSE(bucket.shards_param);
      CHECK_FALSE(bucket.on_host);
      CHECK((compute == wide || bucket.weights.size() == 1));
    }
    CHECK(found == 1);
    CHECK(buffer.param.dtype == wide);
    CHECK(buffer.param.layout.cuts.size() == buffer.compute.cuts.size());
    CHECK(weights.front()->records().front().param.dtype == compute);
  }
}

}  // namespace plan_test
