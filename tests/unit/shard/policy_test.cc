// Every policy gives the same sums and the same parameters.
#include <capstan_catch.h>

#include <map>

#include "shard/rig.h"
#include "support/pairwise.h"

namespace policy_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

nn::Batch batch_of(int rank, std::int64_t micro_step) {
  nn::Batch batch;
  batch.tokens = (at::arange(6, at::kLong).view({2, 3}) * (rank + 2) + micro_step * 3) % 7;
  batch.labels = (batch.tokens + 1) % 7;
  batch.sample_ids = at::arange(2, at::kLong) + 10 * rank + micro_step;
  batch.step = 0;
  batch.seed = 3;
  batch.training = true;
  return batch;
}

struct Case {
  int world;
  std::int64_t accumulation;
  RigOptions options;
};

// Gradients of a step, then parameters after an update with them, then gradients of a second step.
struct Outcome {
  Whole first;
  Whole stored;
  Whole second;
};

Outcome outcome(const Case& test) {
  Outcome out;
  std::mutex mutex;
  run_in_process(test.world, [&](Communicator& communicator) {
    Rig rig(communicator, test.options);
    const auto step = [&](Whole& gradients) {
      for (std::int64_t m = 0; m < test.accumulation; ++m) rig.micro_step(m, batch_of(communicator.world().rank, m));
      merge(gradients, mutex, rig.engine->gradient_boxes());
    };
    step(out.first);
    rig.rule->set([](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) slice.master.sub_(slice.grad, 0.125);
    });
    rig.engine->update(0, {});
    step(out.second);
    merge(out.stored, mutex, rig.engine->stored_boxes());
  });
  return out;
}

void expect_same(const Case& test, const Outcome& reference) {
  const auto result = outcome(test);
  // Sums of a few dozen products in another order.
  CHECK(close(result.first, reference.first, 1e-13));
  CHECK(close(result.stored, reference.stored, 1e-13));
  CHECK(close(result.second, reference.second, 1e-12));
}

enum Factor : std::size_t { ranks_, accumulation_, reduce_, stage_, offload_, coalesce_, bucket_ };
// How buckets are made: 1, 2 or 4 units; 60, 120 or 240 elements, which join the smaller units, but not all of them; a
// unit a bucket, and half of what is offloaded.
const std::vector<std::size_t> levels{4, 2, 2, 3, 3, 2, 7};

bool allowed(const Choice& c) {
  const bool by_half = c[bucket_] == 6;
  return (c[offload_] < 2 || c[stage_] == 2) && !(by_half && (c[offload_] == 0 || c[coalesce_] == 1));
}

void check(const Choice& c) {
  const int world = static_cast<int>(c[ranks_]) + 1, stage = static_cast<int>(c[stage_]) + 1,
            offload = static_cast<int>(c[offload_]);
  const std::int64_t accumulation = c[accumulation_] == 0 ? 1 : 3;
  RigOptions options{.sharded = false,
                     .accumulation = accumulation,
                     .reduce = c[reduce_] == 0 ? shard::ReduceWhen::step : shard::ReduceWhen::micro_step};
  static std::map<Choice, Outcome> references;
  const Choice key{c[ranks_], c[accumulation_], c[reduce_]};
  if (!references.contains(key)) references[key] = outcome({world, accumulation, options});
  INFO("world " << world << " accumulation " << accumulation << " reduce " << c[reduce_] << " stage " << stage
                << " offload " << offload << " coalesce " << c[coalesce_] << " buckets " << c[bucket_]);
  options.coalesce = c[coalesce_] == 1;
  options.policy = [&](strategy::ShardPolicy& policy) {
    set_stage(policy, stage, offload);
    const auto units = std::int64_t{1} << c[bucket_] % 3;
    if (c[bucket_] < 3) policy.bucket_size.number = units;
    if (c[bucket_] >= 3 && c[bucket_] < 6) policy.bucket_size = {strategy::BucketSize::By::at_least, 60 * units};
    if (c[bucket_] == 6) policy.offload_ratio = 0.5;
  };
  expect_same({world, accumulation, options}, references.at(key));
}

}  // namespace

TEST_CASE("every stage, offload, bucket and call layout gives what replicated parameters give: a pairwise cover") {
  for (const auto& choice : pairwise(levels, allowed)) check(choice);
}

TEST_CASE("every stage, offload, bucket and call layout gives what replicated parameters give", "[.][full]") {
  each_choice(levels, [](const Choice& choice) {
    if (allowed(choice)) check(choice);
  });
}

TEST_CASE("what is left after forward is enough to gather again from neighbours") {
  const int part = GENERATE(2, 3);
  RigOptions whole{.sharded = false};
  const auto reference = outcome({6, 1, whole});
  RigOptions options;
  options.policy = [&](strategy::ShardPolicy& policy) { policy.reshard_size = part; };
  expect_same({6, 1, options}, reference);
}

TEST_CASE("rank 0's parameters win, and the records that differed are named") {
  run_in_process(3, [](Communicator& communicator) {
    RigOptions options;
    options.policy = [](strategy::ShardPolicy& policy) { policy.sync_module_states = true; };
    Rig rig(communicator, options);
    nn::InitSource other(communicator.world().rank == 2 ? 6 : 5);
    const auto differing = rig.engine->fill(other);
    if (communicator.world().rank != 2) {
      if (!differing.empty()) throw std::runtime_error("a rank with rank 0's values is named");
    } else if (differing.empty()) {
      throw std::runtime_error("a rank with other values is not named");
    }
    for (const auto& stored : rig.engine->stored_boxes()) {
      const auto expected = slice(initial(*stored.record), stored.box).reshape({-1});
      if (!at::equal(stored.value, expected)) throw std::runtime_error(stored.record->name + " is not rank 0's");
    }
  });
}

namespace {

// New memory is not a number, as it may be on a GPU.
class NanInNewMemory {
 public:
  NanInNewMemory() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true); }
  ~NanInNewMemory() { at::globalContext().setDeterministicAlgorithms(false, false); }
  NanInNewMemory(const NanInNewMemory&) = delete;
  NanInNewMemory& operator=(const NanInNewMemory&) = delete;
};

}  // namespace

TEST_CASE("beyond a slice's parameters its gradient is zero, whatever staging held before") {
  const NanInNewMemory nan;
  REQUIRE(at::empty({1}, at::kFloat).isnan().item<bool>());
  const int world = GENERATE(2, 5);  // 5 ranks share biases evenly
  const bool coalesce = GENERATE(false, true), mixed = GENERATE(false, true);
  const std::int64_t accumulation = GENERATE(1, 2);
  const int offload = GENERATE(0, 1);
  INFO("world " << world << " coalesce " << coalesce << " mixed " << mixed << " accumulation " << accumulation
                << " offload " << offload);
  RigOptions options{.accumulation = accumulation, .reduce = shard::ReduceWhen::micro_step, .coalesce = coalesce};
  if (mixed) options.precision = {at::kFloat, at::kDouble, at::kFloat, c10::Device(c10::DeviceType::CPU)};
  options.policy = [&](strategy::ShardPolicy& policy) { set_stage(policy, 2, offload); };
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, options);
    for (int step = 0; step < 2; ++step) {
      for (std::int64_t m = 0; m < accumulation; ++m) rig.micro_step(m, batch_of(communicator.world().rank, m));
      double of_parameters = 0, of_all = 0;
      for (const auto& stored : rig.engine->gradient_boxes())
        of_parameters += stored.value.to(at::kDouble).abs().sum().item<double>();
      update_with(rig, [&](std::vector<optimizer::Slice>& slices) {
        for (const auto& slice : slices) of_all += slice.grad.to(at::kDouble).abs().sum().item<double>();
      });
      REQUIRE(of_parameters > 0);
      CHECK(of_all == Approx(of_parameters).epsilon(1e-12));  // the same numbers in another order
    }
  });
}

}  // namespace policy_test
