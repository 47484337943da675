// The masters' copies that gathers send.
#include <capstan_catch.h>

#include "shard/rig.h"

namespace masters_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

const shard::Precision in_16_bits{at::kBFloat16, at::kFloat, at::kFloat, c10::Device(c10::DeviceType::CPU)};

/// Masters after two steps on `world` ranks.
Whole learnt(int world, const RigOptions& options) {
  at::set_num_threads(1);
  Whole stored;
  std::mutex mutex;
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, options);
    for (std::int64_t step = 0; step < 2; ++step) {
      for (std::int64_t micro = 0; micro < options.accumulation; ++micro)
        rig.micro_step(micro, tiny_batch(step * 8 + micro * world + communicator.world().rank));
      update_with(rig, [](std::vector<optimizer::Slice>& slices) {
        for (auto& slice : slices) slice.master.sub_(slice.grad, 0.125);
      });
    }
    merge(stored, mutex, rig.engine->stored_boxes());
  });
  return stored;
}

}  // namespace

TEST_CASE("what is cast for each gather is what was cast once an update, bit for bit") {
  const int world = GENERATE(2, 3);
  const bool coalesce = GENERATE(false, true);
  const std::int64_t accumulation = GENERATE(1, 2);
  RigOptions options{.accumulation = accumulation, .precision = in_16_bits, .coalesce = coalesce};
  const auto once = learnt(world, options);
  options.policy = [](strategy::ShardPolicy& policy) { policy.cast_at_gather = true; };
  const auto each = learnt(world, options);
  INFO(world << " ranks, in place " << coalesce << ", accumulation " << accumulation);
  CHECK(close(each, once, 0));
  options.policy = [](strategy::ShardPolicy& policy) { policy.cast_at_gather = policy.limit_all_gathers = false; };
  CHECK(close(learnt(world, options), once, 0));
}

TEST_CASE("a shard that is cast for each gather is held once") {
  const auto parameters = [](bool casts) {
    std::int64_t bytes = 0;
    run_in_process(2, [&](Communicator& communicator) {
      RigOptions options{.precision = in_16_bits};
      options.policy = [&](strategy::ShardPolicy& policy) { policy.cast_at_gather = casts; };
      const auto footprint = Rig(communicator, options).engine->footprint();
      if (communicator.world().rank > 0) return;
      for (const auto& part : footprint) bytes += part.part == "parameters" ? part.bytes : 0;
    });
    return bytes;
  };
  CHECK(parameters(true) == std::int64_t{64} * 8 * 4);  // 8 weights, with padding
  CHECK(parameters(false) == std::int64_t{64} * 8 * (4 + 2));
}

}  // namespace masters_test
