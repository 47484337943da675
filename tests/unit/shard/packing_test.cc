// Full weights to shards and back.
#include "shard/packing.h"

#include <capstan_catch.h>

#include "shard/rig.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

// layer1 on so many ranks: a fused weight of two records, a matrix, a bias.
shard::BucketPlan layer1(int ranks) {
  const auto chain = rig_chain({});
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, ranks}});
  set_stage(options.policy, 3);
  return shard::make_plan(pointers(chain), options).buckets[1];
}

}  // namespace

TEST_CASE("all ranks' shards together are the full weight, and what lies between records is zero") {
  const int ranks = GENERATE(1, 2, 3, 4, 7);
  const auto bucket = layer1(ranks);
  const auto all = at::full({bucket.shard_elements * ranks}, std::nan(""), at::kDouble);
  for (const auto& planned : bucket.weights) {
    const auto full = at::arange(1, planned.sharding.numel + 1, at::kDouble);
    shard::Moves in;
    for (int r = 0; r < ranks; ++r) shard::pack_weight(planned, r, full, shard::shard_of(bucket, planned, r, all), in);
    in.run(true);
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += shard::shard_of(bucket, planned, r, all).sum().item<double>();
    CHECK(sum == full.sum().item<double>());
    const auto back = at::zeros_like(full);
    shard::Moves out;
    for (int r = 0; r < ranks; ++r)
      shard::unpack_weight(planned, r, shard::shard_of(bucket, planned, r, all), back, out);
    out.run(true);
    CHECK(at::equal(back, full));
    out.run(false);  // once more, added
    CHECK(at::equal(back, 2 * full));
  }
}

TEST_CASE("without a full weight a shard is zero") {
  const auto bucket = layer1(2);
  const auto& planned = bucket.weights.front();
  const auto shard = at::ones({planned.sharding.shard_elements}, at::kDouble);
  shard::Moves moves;
  shard::pack_weight(planned, 0, {}, shard, moves);
  CHECK(moves.to.empty());
  CHECK(shard.eq(0).all().item<bool>());
}
