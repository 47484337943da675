// Summed gradients of what is offloaded: through the device to the host, and back where micro-steps add up.
#include "shard/gradient_offload.h"

#include <capstan_catch.h>

#include "shard/rig.h"
#include "shard/shared.h"

namespace gradient_offload_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

const c10::Device cpu{c10::DeviceType::CPU};

struct Sums {
  Whole gradients;
  at::Tensor norms;
};

Sums sums(int world, const RigOptions& options) {
  Sums result;
  std::mutex mutex;
  run_in_process(world, [&](Communicator& communicator) {
    at::set_num_threads(1);
    Rig rig(communicator, options);
    // The second step's do not add to the first one's.
    for (const std::int64_t step : {0, 1}) {
      for (std::int64_t m = 0; m < options.accumulation; ++m)
        rig.micro_step(m, tiny_batch(10 * step + world * m + communicator.world().rank));
    }
    auto norms = rig.engine->squared_grad_norms();
    rig.group->all_reduce(norms, comm::ReduceOp::sum, "norms");
    merge(result.gradients, mutex, rig.engine->gradient_boxes());
    if (communicator.world().rank == 0) result.norms = norms;
  });
  return result;
}

shard::EngineOptions options_of(std::int64_t accumulation, shard::ReduceWhen reduce, c10::ScalarType reduce_dtype) {
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
  options.precision = {at::kBFloat16, at::kFloat, reduce_dtype, cpu};
  set_stage(options.policy, 2, 1);
  options.accumulation = accumulation;
  options.reduce = reduce;
  return options;
}

}  // namespace

TEST_CASE("gradients that lie in host memory between micro-steps have the bits of those that stay") {
  const auto precision = GENERATE(shard::Precision{at::kFloat, at::kFloat, at::kFloat, cpu},
                                  shard::Precision{at::kBFloat16, at::kFloat, at::kFloat, cpu},
                                  shard::Precision{at::kBFloat16, at::kFloat, at::kBFloat16, cpu},
                                  shard::Precision{at::kBFloat16, at::kBFloat16, at::kFloat, cpu},
                                  shard::Precision{at::kDouble, at::kDouble, at::kFloat, cpu});
  const std::int64_t accumulation = GENERATE(1, 2, 4);
  const auto reduce = GENERATE(shard::ReduceWhen::step, shard::ReduceWhen::micro_step);
  const int world = GENERATE(1, 3);
  INFO("compute " << precision.compute << " master " << precision.master << " reduce " << precision.reduce
                  << " accumulation " << accumulation << " world " << world);
  const auto run = [&](int offload, double ratio) {
    RigOptions options{.accumulation = accumulation, .reduce = reduce, .precision = precision};
    options.policy = [&](strategy::ShardPolicy& policy) {
      set_stage(policy, 2, offload);
      policy.offload_ratio = ratio;
    };
    return sums(world, options);
  };
  const auto there = run(1, 1.0);
  const auto mixed = run(1, 0.5);
  CHECK(there.gradients.size() == 10);
  CHECK(at::equal(there.norms, mixed.norms));
  // One rank cuts nothing, and sums nothing in the reduce dtype, where nothing is offloaded.
  const auto here = world == 1 ? mixed : run(0, 1.0);
  CHECK(at::equal(there.norms, here.norms));
  for (const auto& [name, gradient] : here.gradients) {
    INFO(name);
    CHECK(there.gradients.at(name).scalar_type() == precision.master);
    CHECK(at::equal(there.gradients.at(name), gradient));
    CHECK(at::equal(mixed.gradients.at(name), gradient));
    CHECK(gradient.ne(0).any().item<bool>());
  }
}

TEST_CASE("earlier sums come back for their bucket, in whatever order they are asked for") {
  const bool forwards = GENERATE(true, false);
  const auto chain = rig_chain({});
  auto options = options_of(3, shard::ReduceWhen::micro_step, at::kBFloat16);
  options.policy.shard_param = true;
  shard::Shared shared(options, pointers(chain));
  const auto& plan = shared.plan;
  auto& offload = shared.offload;
  offload.allocate();
  const auto count = plan.buckets.size();
  REQUIRE(count > 3);
  for (std::int64_t micro = 0; micro < 3; ++micro) {
    offload.begin_micro_step(micro);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& bucket = plan.buckets[micro > 0 && forwards ? i : count - 1 - i];
      const auto sum = offload.staging(bucket, micro == 0 ? at::kBFloat16 : at::kFloat);
      sum.fill_(bucket.shard_elements + 1000 * micro);
      if (micro > 0) {
        sum.add_(offload.earlier(bucket));
        offload.release(bucket);
      }
      offload.send(bucket, sum, {});
    }
  }
  for (const auto& bucket : plan.buckets) {
    const auto sent = offload.gradient(bucket);
    CHECK(sent.scalar_type() == at::kFloat);
    const auto first = at::full({1}, bucket.shard_elements, at::kBFloat16).to(at::kFloat).item<float>();
    CHECK(sent.eq(first + 2.0F * static_cast<float>(bucket.shard_elements) + 3000.0F).all().item<bool>());
  }
}

TEST_CASE("a gradient crosses in the reduce dtype where that keeps every bit") {
  const auto chain = rig_chain({});
  const auto dtype = [&](const shard::EngineOptions& options, bool written, bool last) {
    const auto plan = shard::make_plan(pointers(chain), options);
    return plan.buckets.front().gradients.offload_dtype(written, last);
  };
  const auto on_host = [&](const shard::EngineOptions& options) {
    const auto plan = shard::make_plan(pointers(chain), options);
    return plan.buckets.front().buffer(shard::Purpose::gradient_on_host)->dtype;
  };
  using shard::ReduceWhen;
  const auto narrow = options_of(2, ReduceWhen::micro_step, at::kBFloat16);
  CHECK(dtype(narrow, true, false) == at::kBFloat16);
  CHECK(dtype(narrow, false, true) == at::kFloat);
  CHECK(on_host(narrow) == at::kFloat);
  CHECK(on_host(options_of(1, ReduceWhen::micro_step, at::kBFloat16)) == at::kBFloat16);
  CHECK(on_host(options_of(2, ReduceWhen::step, at::kBFloat16)) == at::kBFloat16);
  CHECK(on_host(options_of(1, ReduceWhen::micro_step, at::kFloat)) == at::kFloat);
  auto pure = options_of(1, ReduceWhen::micro_step, at::kFloat);
  pure.precision.master = at::kBFloat16;
  CHECK(on_host(pure) == at::kBFloat16);
}

}  // namespace gradient_offload_test
