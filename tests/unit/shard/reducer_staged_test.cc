// Sums that pass through staging, and gradients of 16 bits that ranks exchange and add up in 32.
#include <capstan_catch.h>

#include "shard/mesh_rig.h"
#include "shard/plan.h"

namespace reducer_staged_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

/// Gradients of a step on `world` ranks.
Whole summed(int world, const RigOptions& options) {
  at::set_num_threads(1);
  Whole gradients;
  std::mutex mutex;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    Rig rig(communicator, options);
    for (std::int64_t micro = 0; micro < options.accumulation; ++micro)
      rig.micro_step(micro, tiny_batch(micro * world + communicator.world().rank));
    merge(gradients, mutex, rig.engine->gradient_boxes());
  });
  return gradients;
}

}  // namespace

TEST_CASE("gradients that cross in 16 bits have the sums of those that cross in 32, bit for bit") {
  const int world = GENERATE(2, 3, 4);
  const int stage = GENERATE(2, 3);
  const int offload = GENERATE(0, 1);
  const std::int64_t accumulation = GENERATE(1, 3);
  INFO(world << " ranks, stage " << stage << ", offload " << offload << ", accumulation " << accumulation);
  RigOptions options{.accumulation = accumulation, .reduce = shard::ReduceWhen::micro_step};
  options.precision = {at::kBFloat16, at::kFloat, at::kFloat, c10::Device(c10::DeviceType::CPU)};
  const auto sums = [&](bool exchanges) {
    options.policy = [&](strategy::ShardPolicy& policy) {
      set_stage(policy, stage, offload);
      policy.exchange_gradients = exchanges;
    };
    return summed(world, options);
  };
  CHECK(close(sums(true), sums(false), 0));
}

TEST_CASE("gradients are exchanged where that halves what crosses") {
  const auto sum_by = [](const std::function<void(shard::EngineOptions&)>& change) {
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
    options.precision.compute = at::kBFloat16;
    set_stage(options.policy, 3);
    options.policy.exchange_gradients = true;
    change(options);
    const auto chain = rig_chain({});
    return shard::make_plan(pointers(chain), options).buckets[1].gradients.sum_by;
  };
  using shard::SumBy;
  CHECK(sum_by([](auto&) {}) == SumBy::exchange);
  CHECK(sum_by([](auto& options) { options.coalesce = true; }) == SumBy::exchange);
  CHECK(sum_by([](auto& options) { options.precision.compute = at::kFloat; }) == SumBy::reduce_scatter);
  CHECK(sum_by([](auto& options) { options.precision.reduce = at::kBFloat16; }) == SumBy::reduce_scatter);
  CHECK(sum_by([](auto& options) { options.deterministic = true; }) == SumBy::reduce_scatter);
  CHECK(sum_by([](auto& options) { options.accumulation = 2; }) == SumBy::reduce_scatter);  // sums of 32 bits cross
  CHECK(sum_by([](auto& options) { options.reduce_overrides[layout::Axis::dp] = [](strategy::Bucket&) {}; }) ==
        SumBy::reduce_scatter);
}

TEST_CASE("sums that pass through staging piece by piece are those of whole buckets, bit for bit") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool deterministic : {false, true}) {
      MeshCase c{.stage = stage, .accumulation = 2, .deterministic = deterministic, .data_ranks = 3};
      c.reduce = stage % 2 == 0 ? shard::ReduceWhen::step : shard::ReduceWhen::micro_step;
      const auto whole = run_mesh(c);
      for (const std::int64_t most : {1, 40, 300}) {  // an element a rank, parts of weights, several weights
        INFO("stage " << stage << ", " << most << " elements");
        c.most_staged = most;
        const auto result = run_mesh(c);
        CHECK(bit_equal(result.gradients, whole.gradients));
        CHECK(bit_equal(result.updated, whole.updated));
      }
    }
  }
}

}  // namespace reducer_staged_test
