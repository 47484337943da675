// What the counting executor says is taken, against the plan's buffers.
#include "shard/counting_executor.h"

#include <capstan_catch.h>

#include <map>

#include "shard/rig.h"

namespace counting_executor_test {

using namespace capstan;
using namespace capstan::testing;
using shard::Lifetime;

namespace {

shard::EngineOptions on_four_ranks(int offload) {
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, 4}});
  options.precision.compute = at::kBFloat16;
  set_stage(options.policy, 3, offload);
  return options;
}

}  // namespace

TEST_CASE("full parameters are taken by a prefetch and given back by the release") {
  const auto chain = rig_chain({});
  const auto plan = shard::make_plan(pointers(chain), on_four_ranks(0));
  std::int64_t now = 0;
  shard::CountingExecutor executor(plan, [&](const shard::Buffer&, std::int64_t bytes) { now += bytes; });
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    executor.prefetch(b, true);
    CHECK(now == plan.buckets[b].full_elements * 2);
    executor.acquire(b);
    executor.reduce(b, {});
    CHECK(now == plan.buckets[b].full_elements * 2);
    executor.release(b);
    CHECK(now == 0);
  }
}

TEST_CASE("what stays from forward to backward is taken once, and the gather for backward uses it up") {
  const auto chain = rig_chain({});
  auto options = on_four_ranks(0);
  options.policy.reshard_size = 2;
  const auto plan = shard::make_plan(pointers(chain), options);
  std::map<Lifetime, std::int64_t> now;
  shard::CountingExecutor executor(
      plan, [&](const shard::Buffer& buffer, std::int64_t bytes) { now[buffer.lifetime] += bytes; });
  executor.prefetch(1, true);
  CHECK(now[Lifetime::regather] == plan.buckets[1].shard_elements * 2 * 2);  // two ranks, in bfloat16
  executor.release(1);
  CHECK(now[Lifetime::regather] == plan.buckets[1].shard_elements * 2 * 2);
  executor.prefetch(1, false);
  CHECK(now[Lifetime::regather] == 0);
  executor.release(1);
  executor.prefetch(1, false);
  CHECK(now[Lifetime::regather] == 0);
}

TEST_CASE("what is sent from host memory is on the device for the gather") {
  const auto chain = rig_chain({});
  const auto plan = shard::make_plan(pointers(chain), on_four_ranks(2));
  std::int64_t now = 0;
  std::int64_t most = 0;
  shard::CountingExecutor executor(plan, [&](const shard::Buffer&, std::int64_t bytes) {
    now += bytes;
    most = std::max(most, now);
  });
  executor.prefetch(2, false);
  CHECK(now == plan.buckets[2].full_elements * 2);
  CHECK(most == now + plan.buckets[2].shard_elements * 2);
}

}  // namespace counting_executor_test
