// Which tables' gradients ranks exchange as rows.
#include "shard/plan.h"

#include <capstan_catch.h>

#include <algorithm>
#include <functional>

#include "shard/rig.h"

namespace tables_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t most = 12;  // tokens of a micro-batch: they have 8

const shard::BucketPlan* table_of(const shard::ShardPlan& plan) {
  const auto found = std::find_if(plan.buckets.begin(), plan.buckets.end(),
                                  [](const auto& bucket) { return bucket.gradients.table.has_value(); });
  return found == plan.buckets.end() ? nullptr : &*found;
}

shard::EngineOptions options_on(int ranks) {
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, ranks}});
  options.micro_tokens = most;
  return options;
}

}  // namespace

TEST_CASE("which tables are exchanged as rows, and in which buckets") {
  for (const bool tied : {true, false}) {
    const auto chain = rig_chain({.micro_tokens = most, .tied = tied});
    const auto plan = shard::make_plan(pointers(chain), options_on(5));  // 60 rows of 61
    const auto* table = table_of(plan);
    REQUIRE(table);
    CHECK(table->weights.size() == 1);
    CHECK(table->gradients.table->only_looked_up == !tied);
    CHECK(table->gradients.table->rows == most);
    CHECK_FALSE(table_of(shard::make_plan(pointers(chain), options_on(1))));
    CHECK_FALSE(table_of(shard::make_plan(pointers(chain), options_on(6))));  // more rows than the table has
  }
  const auto chain = rig_chain({.micro_tokens = most});
  const auto refused = [&](const std::function<void(shard::EngineOptions&)>& change) {
    auto options = options_on(2);
    change(options);
    return table_of(shard::make_plan(pointers(chain), options)) == nullptr;
  };
  CHECK_FALSE(refused([](auto&) {}));
  CHECK(refused([](auto& options) { options.deterministic = true; }));
  CHECK(refused([](auto& options) { options.micro_tokens = 0; }));
  CHECK(refused([](auto& options) { set_stage(options.policy, 2, 1); }));
  CHECK(refused([](auto& options) { options.reduce_overrides[layout::Axis::dp] = {}; }));
  CHECK(refused([](auto& options) { options.policy.bucket_size.number = 4; }));  // one run looks it up and multiplies
  CHECK(refused([](auto& options) {
    options.mesh = layout::Mesh({{layout::Axis::replicate, 2}, {layout::Axis::dp, 2}});
  }));
  CHECK_FALSE(table_of(shard::make_plan(pointers(rig_chain({})), options_on(2))));  // no nn::Embedding
}

}  // namespace tables_test
