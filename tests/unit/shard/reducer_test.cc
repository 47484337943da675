// Sums of gradients over data ranks, copies, and ranks on an axis without data.
#include <capstan_catch.h>

#include <atomic>

#include "shard/mesh_rig.h"

namespace reducer_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// Sums in another order than the reference's: some 10 additions of 1e-16 each.
constexpr double tolerance = 1e-13;

void check(const MeshCase& c) {
  INFO("stage " << c.stage << ", offload " << c.offload << ", accumulation " << c.accumulation << ", each micro-step "
                << (c.reduce == shard::ReduceWhen::micro_step) << ", deterministic " << c.deterministic << ", "
                << c.data_ranks << " x " << c.part_ranks);
  std::vector<nn::Batch> batches;
  for (std::int64_t m = 0; m < c.accumulation; ++m) {
    for (int r = 0; r < c.data_ranks * c.part_ranks; ++r) batches.push_back(batch_of(c, m, r));
  }
  const auto expected = plain_gradients({}, batches);
  const auto result = run_mesh(c);
  CHECK(close(result.gradients, expected, tolerance));
  double squared = 0;
  for (const auto& [name, gradient] : expected) squared += gradient.square().sum().item<double>();
  CHECK(std::abs(result.squared_norm - squared) <= tolerance * squared);
  Whole updated;
  for (const auto& weight : all_weights(rig_chain({}))) {
    for (const auto& record : weight->records()) updated[record.name] = initial(record) - expected.at(record.name);
  }
  CHECK(close(result.updated, updated, tolerance));
}

}  // namespace

TEST_CASE("partial gradients are summed after the data ranks' sum, in every stage and with offload") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int offload = 0; offload <= (stage == 3 ? 2 : std::min(stage, 1)); ++offload) {
      for (const bool deterministic : {false, true})
        check({.stage = stage, .offload = offload, .deterministic = deterministic});
    }
  }
}

TEST_CASE("partial gradients are summed once a step under accumulation") {
  for (const int stage : {0, 2, 3}) {
    for (const auto reduce : {shard::ReduceWhen::step, shard::ReduceWhen::micro_step})
      check({.stage = stage, .accumulation = 2, .reduce = reduce});
  }
}

TEST_CASE("partial gradients without data ranks, and on three ranks") {
  for (const int stage : {0, 3}) {
    check({.stage = stage, .data_ranks = 1, .part_ranks = 2});
    check({.stage = stage, .data_ranks = 3, .part_ranks = 3});
    check({.stage = stage, .accumulation = 2, .data_ranks = 1, .part_ranks = 3});
  }
}

TEST_CASE("an override of the reduction sums instead of the reducer, and is told where each record lies") {
  for (const int stage : {0, 1, 3}) {
    for (const bool deterministic : {false, true}) {
      std::atomic<int> calls = 0;
      std::atomic<bool> fits = true;
      const auto override_sum = [&](strategy::Bucket& bucket) {
        ++calls;
        const bool sharded = bucket.out.numel() < bucket.gradient.numel();
        fits = fits && sharded == (stage > 0) && bucket.last;
        for (const auto& part : bucket.parts) fits = fits && part.offset + part.numel <= bucket.gradient.numel();
        if (sharded) {
          bucket.group.reduce_scatter(bucket.out, bucket.gradient, "override");
        } else {
          bucket.group.all_reduce(bucket.gradient, comm::ReduceOp::sum, "override");
        }
      };
      check({.stage = stage, .deterministic = deterministic, .override_sum = override_sum});
      CHECK(calls == 2 * 4 * 4);  // steps, buckets, ranks
      CHECK(fits);
    }
  }
}

TEST_CASE("copies' sums are added up once a step, full or by shards") {
  for (const int stage : {0, 2, 3}) {
    for (const auto reduce : {shard::ReduceWhen::step, shard::ReduceWhen::micro_step})
      check({.stage = stage, .accumulation = 2, .reduce = reduce, .data_ranks = 4, .part_ranks = 1, .copies = 2});
  }
}

}  // namespace reducer_test
