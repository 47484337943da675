// What is decided of a bucket, and the buffers that follow. That the engine allocates these: footprint_test.cc.
#include "shard/plan.h"

#include <capstan_catch.h>

#include "shard/rig.h"

namespace resolve_test {

using namespace capstan;
using namespace capstan::testing;
using shard::Memory;
using shard::Purpose;
using shard::SumBy;

namespace {

shard::EngineOptions mixed(int ranks, int stage, int offload = 0) {
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, ranks}});
  options.precision.compute = at::kBFloat16;
  set_stage(options.policy, stage, offload);
  return options;
}

shard::BucketPlan layer1(const shard::EngineOptions& options) {
  const auto chain = rig_chain({});
  return shard::make_plan(pointers(chain), options).buckets[1];
}

bool has(const shard::BucketPlan& bucket, Purpose purpose) { return bucket.buffer(purpose) != nullptr; }

}  // namespace

TEST_CASE("gradients are summed by the calls that role, determinism, overrides and the backend ask for") {
  const auto sum_by = [](int ranks, int stage, const std::function<void(shard::EngineOptions&)>& change = {}) {
    auto options = mixed(ranks, stage);
    if (change) change(options);
    return layer1(options).gradients.sum_by;
  };
  const auto deterministic = [](shard::EngineOptions& options) { options.deterministic = true; };
  const auto in_bfloat16 = [](shard::EngineOptions& options) {
    options.coalesce = true;
    options.precision.reduce = at::kBFloat16;
  };
  CHECK(sum_by(1, 0) == SumBy::nothing);
  CHECK(sum_by(1, 3) == SumBy::nothing);  // on one rank sharding saves nothing
  CHECK(sum_by(2, 0) == SumBy::all_reduce);
  CHECK(sum_by(2, 0, deterministic) == SumBy::reduce_scatter_all_gather);
  CHECK(sum_by(2, 2) == SumBy::reduce_scatter);
  CHECK(sum_by(2, 2, in_bfloat16) == SumBy::reduce_scatter_in_place);
  // Autograd's gradients are in another dtype than sums: packed. Those that were added up are not.
  CHECK(sum_by(2, 2, [](auto& options) { options.coalesce = true; }) == SumBy::reduce_scatter);
  CHECK(sum_by(2, 2, [](auto& options) {
          options.coalesce = true;
          options.accumulation = 2;
        }) == SumBy::reduce_scatter_in_place);
  for (const int stage : {0, 2}) {
    CHECK(sum_by(2, stage, [&](auto& options) {
            in_bfloat16(options);
            options.deterministic = stage == 0;
            options.reduce_overrides[layout::Axis::dp] = [](strategy::Bucket&) {};
          }) == (stage == 0 ? SumBy::all_reduce : SumBy::reduce_scatter));
  }
}

TEST_CASE("a shard is sent from where it need not be cast each time") {
  const auto from = [](int stage, int offload) { return layer1(mixed(2, stage, offload)).parameters.send_from; };
  CHECK(from(1, 0) == shard::SendFrom::cast);
  CHECK(from(3, 0) == shard::SendFrom::device_copy);
  CHECK(from(2, 1) == shard::SendFrom::host);
  CHECK(from(3, 1) == shard::SendFrom::device_copy);
  CHECK(from(3, 2) == shard::SendFrom::host);
  // … unless memory counts more.
  auto options = mixed(2, 3);
  options.policy.cast_at_gather = true;
  const auto bucket = layer1(options);
  CHECK(bucket.parameters.send_from == shard::SendFrom::cast);
  CHECK(!has(bucket, Purpose::send_on_device));
  CHECK(!has(bucket, Purpose::send_temporary));
}

TEST_CASE("a reshard_size that does not divide the ranks is none") {
  for (const auto& [size, ranks] : std::vector<std::pair<int, int>>{{2, 2}, {3, 0}, {4, 0}, {1, 0}}) {
    auto options = mixed(4, 3);
    options.coalesce = true;
    options.policy.reshard_size = size;
    const auto bucket = layer1(options);
    CHECK(bucket.parameters.reshard_ranks == ranks);
    CHECK(bucket.parameters.gather_by == (ranks == 0 ? shard::GatherBy::in_place : shard::GatherBy::unpacking));
    CHECK(has(bucket, Purpose::regather) == (ranks > 0));
  }
}

TEST_CASE("one rank in one precision has no buffers but the parameters") {
  auto options = mixed(1, 0);
  options.precision.compute = at::kFloat;
  const auto bucket = layer1(options);
  CHECK(bucket.gradients.autograd);
  CHECK(!has(bucket, Purpose::master));
  CHECK(!has(bucket, Purpose::gradient_full));
  CHECK(has(bucket, Purpose::gradient_autograd));
  for (std::size_t w = 0; w < bucket.weights.size(); ++w) {
    CHECK(bucket.buffer(Purpose::full_parameters, w)->elements == 64);
  }
  // Where bits are promised the rule sees padding.
  options.deterministic = true;
  CHECK(!layer1(options).gradients.autograd);
  CHECK(has(layer1(options), Purpose::gradient_full));
}

TEST_CASE("gradients to which nothing is added stay in the compute dtype") {
  auto options = mixed(1, 0);
  const auto full = [&] { return layer1(options).buffer(Purpose::gradient_full)->dtype; };
  CHECK(full() == at::kBFloat16);
  CHECK_FALSE(layer1(options).gradients.autograd);  // graphs want one place for them
  options.deterministic = true;
  CHECK(full() == at::kBFloat16);
  options.accumulation = 2;
  CHECK(full() == at::kFloat);
  // Ranks that split a layer add their parts of it to the sum.
  options.accumulation = 1;
  options.mesh = layout::Mesh({{layout::Axis::tp, 2}});
  const auto chain = rig_chain({});
  for (auto* unit : pointers(chain)) {
    for (const auto& weight : unit->weights()) {
      for (auto& record : weight->records()) record.partial_axes = {layout::Axis::tp};
    }
  }
  CHECK(shard::make_plan(pointers(chain), options).buckets[1].buffer(Purpose::gradient_full)->dtype == at::kFloat);
}

TEST_CASE("gradients that only this rank has, where others are summed, are read where autograd leaves them") {
  auto options = mixed(1, 0);
  options.mesh = layout::Mesh({{layout::Axis::ep, 2}});
  const auto experts = [&] {
    const auto chain = rig_chain({});
    for (const auto& weight : pointers(chain)[1]->weights()) {
      for (auto& record : weight->records()) std::erase(record.data_axes, layout::Axis::ep);
    }
    for (const auto& bucket : shard::make_plan(pointers(chain), options).buckets) {
      if (bucket.ranks == 1) return bucket;
    }
    throw std::logic_error("every bucket is summed over ranks");
  };
  CHECK(experts().gradients.autograd);
  CHECK(experts().buffer(Purpose::gradient_autograd)->dtype == at::kBFloat16);
  CHECK(!has(experts(), Purpose::gradient_full));
  options.accumulation = 2;
  CHECK_FALSE(experts().gradients.autograd);
}

TEST_CASE("offloaded, masters and gradients are in host memory, what is copied from there pinned") {
  const auto bucket = layer1(mixed(2, 3, 1));
  CHECK(bucket.on_host);
  CHECK(bucket.buffer(Purpose::master)->memory == Memory::host);
  CHECK(bucket.buffer(Purpose::send_on_host)->memory == Memory::pinned_host);
  CHECK(bucket.buffer(Purpose::send_on_device)->memory == Memory::device);
  CHECK(bucket.buffer(Purpose::gradient_on_host)->memory == Memory::pinned_host);
  CHECK(!has(bucket, Purpose::gradient_shard));
  auto options = mixed(2, 3, 1);
  options.precision.compute = at::kFloat;  // sent from the masters themselves
  CHECK(layer1(options).buffer(Purpose::master)->memory == Memory::pinned_host);
  CHECK(!has(layer1(options), Purpose::send_on_host));
  options.policy.pin_memory = false;
  CHECK(layer1(options).buffer(Purpose::master)->memory == Memory::host);
}

TEST_CASE("staging is as large as the bucket that needs most of it") {
  const auto chain = rig_chain({});
  // Elements; -1 where there is none.
  const auto staging = [&](const shard::EngineOptions& options, Purpose purpose) {
    const auto plan = shard::make_plan(pointers(chain), options);
    const auto* buffer = shard::find(plan.staging, purpose);
    return buffer ? buffer->elements : -1;
  };
  // Layers have three weights whose shards take 64 elements.
  constexpr std::int64_t layer = std::int64_t{3} * 64;
  CHECK(staging(mixed(2, 2), Purpose::gather_staging) == 2 * layer);
  CHECK(staging(mixed(2, 2), Purpose::reduce_staging) == 2 * layer);
  CHECK(staging(mixed(2, 2), Purpose::sum_staging) == 0);
  CHECK(staging(mixed(2, 2), Purpose::offload_staging) == -1);
  auto options = mixed(2, 2, 1);
  CHECK(staging(options, Purpose::offload_staging) == 4 * layer);
  CHECK(staging(options, Purpose::return_staging) == -1);
  options.accumulation = 2;
  options.reduce = shard::ReduceWhen::micro_step;
  CHECK(staging(options, Purpose::return_staging) == 4 * layer);
  options.precision.reduce = at::kBFloat16;  // with two micro-steps what comes back was reduced only
  CHECK(staging(options, Purpose::return_staging) == 2 * layer);
}

}  // namespace resolve_test
