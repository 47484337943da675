// Where records lie in a bucket's flat gradient.
#include "shard/flat_gradient.h"

#include <capstan_catch.h>

#include <set>

#include "shard/rig.h"

using namespace capstan;
using namespace capstan::testing;
using shard::Flat;

TEST_CASE("parts cover each record once, without overlap, in every form of a flat gradient") {
  const int ranks = GENERATE(1, 2, 3, 7);
  const auto chain = rig_chain({});
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, ranks}});
  set_stage(options.policy, 2);
  const auto plan = shard::make_plan(pointers(chain), options);
  for (const auto& bucket : plan.buckets) {
    const auto check = [&](const std::vector<strategy::BucketPart>& parts, std::int64_t size,
                           std::map<std::string, std::int64_t>& covered) {
      std::set<std::int64_t> taken;
      for (const auto& part : parts) {
        CHECK(part.numel > 0);
        covered[part.record->name] += part.numel;
        for (std::int64_t i = 0; i < part.numel; ++i) {
          CHECK(part.offset + i < size);
          CHECK(taken.insert(part.offset + i).second);
        }
      }
    };
    std::map<std::string, std::int64_t> full, shards, shard;
    check(shard::parts_of(bucket, Flat::full, 0), bucket.full_elements, full);
    check(shard::parts_of(bucket, Flat::shards, 0), bucket.shard_elements * ranks, shards);
    for (int r = 0; r < ranks; ++r) check(shard::parts_of(bucket, Flat::shard, r), bucket.shard_elements, shard);
    for (const auto& planned : bucket.weights) {
      for (const auto& record : planned.weight->records()) {
        CHECK(full[record.name] == record.numel());
        CHECK(shards[record.name] == record.numel());
        CHECK(shard[record.name] == record.numel());
      }
    }
  }
}
