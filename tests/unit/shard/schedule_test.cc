// Which run of units is gathered when: the options that only change time and memory.
#include "shard/gather_protocol.h"

#include <capstan_catch.h>

#include <algorithm>

namespace schedule_test {

using namespace capstan;
using strategy::BackwardPrefetch;

namespace {

// Five runs; the first has nothing to train.
shard::ShardPlan five_runs() {
  shard::ShardPlan plan;
  for (std::size_t i = 0; i < 5; ++i) plan.runs.push_back({i, i, std::max<std::size_t>(i, 1)});
  return plan;
}

using Run = std::optional<std::size_t>;

}  // namespace

TEST_CASE("forward_prefetch: the next run is gathered during this one") {
  const auto runs = five_runs();
  strategy::ShardPolicy policy;
  CHECK(shard::Schedule(runs, policy).prefetch_in_forward(0) == Run(1));
  CHECK(shard::Schedule(runs, policy).prefetch_in_forward(4) == Run());
  policy.forward_prefetch = false;
  CHECK(shard::Schedule(runs, policy).prefetch_in_forward(0) == Run());
}

TEST_CASE("backward_prefetch: before, after or not at all, and never a run that backward does not reach") {
  const auto runs = five_runs();
  strategy::ShardPolicy policy;
  for (const auto when : {BackwardPrefetch::pre, BackwardPrefetch::post, BackwardPrefetch::none}) {
    policy.backward_prefetch = when;
    const shard::Schedule schedule(runs, policy);
    CHECK(schedule.prefetch_in_backward(3, BackwardPrefetch::pre) == (when == BackwardPrefetch::pre ? Run(2) : Run()));
    CHECK(schedule.prefetch_in_backward(3, BackwardPrefetch::post) ==
          (when == BackwardPrefetch::post ? Run(2) : Run()));
    CHECK(schedule.prefetch_in_backward(1, BackwardPrefetch::pre) == Run());
    CHECK(schedule.prefetch_in_backward(1, BackwardPrefetch::post) == Run());
    CHECK(schedule.prefetch_in_backward(0, BackwardPrefetch::pre) == Run());
  }
}

TEST_CASE("reshard_after_forward: the last run stays for its backward, or all that backward reaches do") {
  const auto runs = five_runs();
  strategy::ShardPolicy policy;
  for (const bool reshard : {true, false}) {
    policy.reshard_after_forward = reshard;
    const shard::Schedule schedule(runs, policy);
    CHECK(schedule.stays_gathered(4, true));
    CHECK(schedule.stays_gathered(2, true) == !reshard);
    CHECK(schedule.needs_regather(2, true) == reshard);
    CHECK_FALSE(schedule.stays_gathered(0, true));  // frozen: nothing would ever free it
    CHECK_FALSE(schedule.needs_regather(0, true));
    CHECK_FALSE(schedule.stays_gathered(4, false));  // evaluation
  }
}

}  // namespace schedule_test
