// Which boxes ranks hold, write and count, from only the plan.
#include "shard/boxes.h"

#include <capstan_catch.h>

#include "shard/rig.h"

namespace boxes_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

shard::EngineOptions of_rank(const layout::Mesh& mesh, int rank, int stage) {
  shard::EngineOptions options;
  options.mesh = mesh;
  options.rank = rank;
  options.precision.compute = at::kBFloat16;
  set_stage(options.policy, stage);
  return options;
}

}  // namespace

TEST_CASE("each element is written by one rank and counted in norms by one rank") {
  const int stage = GENERATE(0, 1, 2, 3);
  // Neighbours along tp, which splits nothing here, hold the same; so do hybrid's copies.
  const auto mesh =
      GENERATE(layout::Mesh({{layout::Axis::dp, 3}}), layout::Mesh({{layout::Axis::dp, 2}, {layout::Axis::tp, 2}}),
               layout::Mesh({{layout::Axis::replicate, 2}, {layout::Axis::dp, 2}}));
  INFO("stage " << stage << ", " << mesh.arithmetic());
  const auto chain = rig_chain({.layer2_trains = false});
  std::map<std::string, std::int64_t> written, counted;
  std::int64_t saved = 0;
  std::int64_t saved_trainable = 0;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    auto options = of_rank(mesh, rank, stage);
    options.optimizer = std::make_shared<strategy::Optimizer>(std::make_shared<RuleOf>(2));
    const auto plan = shard::make_plan(pointers(chain), options);
    shard::each_box(plan, options, shard::Of::parameters, false, [&](const shard::HeldBox& held) {
      if (held.writes_to_checkpoint) written[held.record.name] += held.box.numel();
    });
    for (const auto& bucket : plan.buckets) {
      for (const auto& planned : bucket.weights) {
        for (const auto& shard : planned.sharding.of(mesh.position(rank, bucket.axes))) {
          const auto& record = planned.weight->records()[shard.record];
          if (shard::owns_for_norm(record, bucket, options)) counted[record.name] += shard.numel;
        }
      }
    }
    saved += shard::saved_bytes(plan, options, false);
    saved_trainable += shard::saved_bytes(plan, options, true);
  }
  std::int64_t trained = 0;
  std::int64_t frozen = 0;
  for (const auto& weight : all_weights(chain)) {
    for (const auto& record : weight->records()) {
      INFO(record.name);
      CHECK(written[record.name] == record.numel());
      CHECK(counted[record.name] == record.numel());
      (record.trainable ? trained : frozen) += record.numel();
    }
  }
  // Masters and two states in float32; frozen weights in the compute dtype.
  CHECK(saved_trainable == trained * 3 * 4);
  CHECK(saved == saved_trainable + frozen * 2);
}

TEST_CASE("ranks that keep gradients for themselves on an axis each write and count their own") {
  const auto chain = rig_chain({});
  for (const auto& weight : all_weights(chain)) {
    for (auto& record : weight->records()) record.local_axes = {layout::Axis::replicate};
  }
  const layout::Mesh mesh({{layout::Axis::replicate, 2}, {layout::Axis::dp, 2}});
  std::map<int, std::int64_t> written;  // by copy
  for (int rank = 0; rank < 4; ++rank) {
    const auto options = of_rank(mesh, rank, 3);
    const auto plan = shard::make_plan(pointers(chain), options);
    shard::each_box(plan, options, shard::Of::gradients, true, [&](const shard::HeldBox& held) {
      if (held.writes_to_checkpoint) written[held.copy] += held.box.numel();
    });
  }
  CHECK(written == std::map<int, std::int64_t>{{0, 230}, {1, 230}});
}

}  // namespace boxes_test
