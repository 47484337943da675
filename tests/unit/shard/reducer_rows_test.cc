// Gradients of tables' lookups, which ranks exchange as rows.
#include <capstan_catch.h>

#include "shard/rig.h"

namespace reducer_rows_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

// Sums over ranks and micro-steps in another order than the reference's: some 10 additions of 1e-16 each.
constexpr double tolerance = 1e-13;
constexpr std::int64_t most = 12;  // tokens of a micro-batch: they have 8

// Other words on each rank and in each micro-step, some of them several times.
nn::Batch batch_of(std::int64_t number) { return tiny_batch(number, 11 + 7 * (number % 7)); }

Whole gradients_of(int world, const RigOptions& options) {
  at::set_num_threads(1);
  Whole gradients;
  std::mutex mutex;
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, options);
    for (int step = 0; step < 2; ++step) {  // nothing of an earlier step is left
      for (std::int64_t m = 0; m < options.accumulation; ++m)
        rig.micro_step(m, batch_of(m * world + communicator.world().rank));
      if (step == 0) update_with(rig, [](auto&) {});
    }
    merge(gradients, mutex, rig.engine->gradient_boxes());
  });
  return gradients;
}

}  // namespace

TEST_CASE("float64: gradients are those of one rank, with a table that is tied or only looked up, in every stage") {
  const bool tied = GENERATE(true, false);
  const int stage = GENERATE(0, 1, 2, 3);
  const int world = GENERATE(2, 3, 5);
  for (const std::int64_t accumulation : {1, 3}) {
    for (const auto reduce : {shard::ReduceWhen::step, shard::ReduceWhen::micro_step}) {
      RigOptions options{.accumulation = accumulation, .reduce = reduce, .micro_tokens = most, .tied = tied};
      options.policy = [&](auto& policy) { set_stage(policy, stage); };
      INFO("tied " << tied << ", stage " << stage << ", " << world << " ranks, accumulation " << accumulation);
      std::vector<nn::Batch> batches;
      for (std::int64_t i = 0; i < accumulation * world; ++i) batches.push_back(batch_of(i));
      CHECK(close(gradients_of(world, options), plain_gradients(options, batches), tolerance));
    }
  }
}

TEST_CASE("16 bits: replicas hold the same bits, since each adds all ranks' rows in one order") {
  RigOptions options{.sharded = false, .micro_tokens = most};
  options.precision.compute = at::kBFloat16;
  options.precision.master = options.precision.reduce = at::kFloat;
  at::set_num_threads(1);
  std::vector<Whole> of_rank(3);
  run_in_process(3, [&](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    Rig rig(communicator, options);
    rig.micro_step(0, batch_of(rank));
    std::mutex mutex;
    merge(of_rank[static_cast<std::size_t>(rank)], mutex, rig.engine->gradient_boxes());
  });
  CHECK(bit_equal(of_rank[0], of_rank[1]));
  CHECK(bit_equal(of_rank[0], of_rank[2]));
}

TEST_CASE("more rows than a micro-batch has tokens are refused with the table's name") {
  const RigOptions options{.micro_tokens = 7};
  CHECK_THROWS_WITH(gradients_of(2, options), Contains("looked up 8 rows of table, but has at most 7 tokens"));
}

}  // namespace reducer_rows_test
