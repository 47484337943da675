// Full weights to shards and back.
#include "shard/packing.h"

#include <capstan_catch.h>

#include <map>
#include <set>

#include "shard/rig.h"

namespace packing_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// layer1 on `ranks` ranks: a fused weight of two records, a matrix, a bias.
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
    const auto shard_of = [&](int rank) { return planned.of_shard(all.view({ranks, -1})[rank]); };
    shard::Moves in;
    for (int r = 0; r < ranks; ++r) shard::pack_weight(planned, r, full, shard_of(r), in);
    in.run(true);
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += shard_of(r).sum().item<double>();
    CHECK(sum == full.sum().item<double>());
    const auto back = at::zeros_like(full);
    shard::Moves out;
    for (int r = 0; r < ranks; ++r) shard::unpack_weight(planned, r, shard_of(r), back, out);
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
    check(shard::parts_of(bucket, shard::Flat::full, 0), bucket.full_elements, full);
    check(shard::parts_of(bucket, shard::Flat::shards, 0), bucket.shard_elements * ranks, shards);
    for (int r = 0; r < ranks; ++r) check(shard::parts_of(bucket, shard::Flat::shard, r), bucket.shard_elements, shard);
    for (const auto& planned : bucket.weights) {
      for (const auto& record : planned.weight->records()) {
        CHECK(full[record.name] == record.numel());
        CHECK(shards[record.name] == record.numel());
        CHECK(shard[record.name] == record.numel());
      }
    }
  }
}

TEST_CASE("pieces are whole weights, or parts of one that is larger") {
  const auto chain = rig_chain({});
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
  set_stage(options.policy, 3);
  options.most_staged = 200;
  const auto plan = shard::make_plan(pointers(chain), options);
  const auto& layer = plan.buckets[1];  // a fused weight, and two more of 64 elements a rank
  REQUIRE(layer.shard_elements == 3 * 64);
  const auto ends = [&](std::int64_t most) {
    std::vector<std::int64_t> list;
    for (const auto& piece : shard::pieces_of(layer, most)) list.push_back(piece.end);
    return list;
  };
  using Ends = std::vector<std::int64_t>;
  CHECK(ends(1000) == Ends{192});
  CHECK(ends(256) == Ends{128, 192});
  CHECK(ends(200) == Ends{64, 128, 192});
  CHECK(ends(80) == Ends{64, 104, 128, 168, 192});
  CHECK(shard::find(plan.staging, shard::Purpose::reduce_staging)->elements == 128);
}

}  // namespace packing_test
