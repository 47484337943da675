#include "predict/step_work.h"

#include <algorithm>
#include <set>
#include <utility>

#include "shard/slices.h"

namespace capstan::predict {
namespace {

std::int64_t size_of(c10::ScalarType type) { return static_cast<std::int64_t>(c10::elementSize(type)); }

plan::Transfer among(const std::string& operation, const std::vector<layout::Axis>& axes, const job::Topology& topology,
                     std::int64_t bytes) {
  const auto ranks = topology.mesh.ranks_along(axes, topology.rank);
  return {operation, static_cast<int>(ranks.size()), nodes_of(ranks, topology.ranks_per_node), bytes};
}

// The copies of what a bucket's group holds are on other nodes, or among the neighbours of a node.
plan::Transfer among_copies(const shard::BucketPlan& bucket, const job::Topology& topology, std::int64_t bytes) {
  const int nodes = (topology.mesh.world_size() + topology.ranks_per_node - 1) / topology.ranks_per_node;
  return {"all-reduce", bucket.copies, std::min(nodes, bucket.copies), bytes};
}

// What a gradient's element is read and written with on its way to a sum; none was cast that is summed where it is.
std::int64_t cast_bytes(const shard::GradientPlan& gradients, const shard::EngineOptions& options) {
  const bool in_place = gradients.accumulates && gradients.sum_by == shard::SumBy::all_reduce &&
                        options.precision.reduce == gradients.full_dtype;
  return in_place ? 0 : size_of(options.precision.compute) + size_of(options.precision.reduce);
}

void add_reduction(const shard::BucketPlan& bucket, const shard::EngineOptions& options, const job::Topology& topology,
                   plan::StepWork& work) {
  using shard::SumBy;
  const auto& gradients = bucket.gradients;
  const auto times = gradients.accumulates ? 1 : options.accumulation;
  const auto bytes = bucket.full_elements * size_of(options.precision.reduce);
  const auto add = [&](const char* operation, std::int64_t moved) {
    work.reductions[among(operation, bucket.axes, topology, moved)] += times;
  };
  if (bucket.gradients.table) {
    const auto row = bucket.weights.front().sharding.shape.back() * size_of(options.precision.compute);
    add("all-gather", bucket.ranks * bucket.gradients.table->rows * row);
    if (gradients.only_looked_up() && !gradients.accumulates) return;
  }
  const bool scatters = gradients.sum_by == SumBy::reduce_scatter ||
                        gradients.sum_by == SumBy::reduce_scatter_in_place ||
                        gradients.sum_by == SumBy::reduce_scatter_all_gather;
  if (gradients.sum_by == SumBy::exchange) add("all-to-all", bucket.full_elements * size_of(options.precision.compute));
  if (scatters) add("reduce-scatter", bytes);
  if (gradients.sum_by == SumBy::reduce_scatter_all_gather) add("all-gather", bytes);
  if (gradients.sum_by == SumBy::all_reduce) add("all-reduce", bytes);
  if (bucket.copies > 1) {
    const auto own = bucket.shard_elements * size_of(options.precision.reduce);
    work.reductions[among_copies(bucket, topology, own)] += times;
  }
  work.update_bytes += static_cast<double>(times * bucket.full_elements * cast_bytes(gradients, options));
}

// How many micro-steps are replayed, as step::MicroGraphs decides: all, but the first where it gathers what an
// update has changed.
std::int64_t replayed(const plan::MicroStepWork& micro, const shard::ShardPlan& plan,
                      const shard::EngineOptions& options) {
  if (options.stages) return 0;
  bool gathers = false;
  for (const auto& bucket : plan.buckets) {
    if (bucket.on_host || bucket.shards_param) return 0;
    if (bucket.trainable && !bucket.gradients.stay_in_place()) return 0;
    gathers = gathers || (bucket.trainable && bucket.parameters.gathers());
  }
  if (micro.recomputes || !micro.waited.empty()) return 0;
  return options.accumulation - (gathers ? 1 : 0);
}

// The bytes of states on the device that rules read and write.
double state_traffic(const shard::ShardPlan& plan, const shard::EngineOptions& options) {
  double bytes = 0;
  for (const auto& slice : shard::plan_slices(plan, options)) {
    if (!plan.buckets[slice.bucket].on_host) bytes += 2 * static_cast<double>(slice.state_bytes());
  }
  return bytes;
}

// What the optimizer's joint updates cost on top: their rules' operations, and what ranks exchange.
void add_joint_updates(const shard::ShardPlan& plan, const shard::EngineOptions& options, const job::Topology& topology,
                       plan::StepWork& work) {
  for (const auto& update : shard::joint_updates(plan, options)) {
    const auto cost = update->cost();
    work.whole_flops += cost.flops;
    for (const auto& [operation, bytes, number] : cost.calls)
      work.whole_parts[among(operation, shard::joint_axes(plan, options), topology, bytes)] += number;
  }
}

}  // namespace

int nodes_of(const std::vector<int>& ranks, int ranks_per_node) {
  std::set<int> nodes;
  for (const auto rank : ranks) nodes.insert(rank / ranks_per_node);
  return static_cast<int>(nodes.size());
}

void add_gather(const shard::BucketPlan& bucket, const job::Topology& topology, plan::Transfers& transfers) {
  const auto size = size_of(bucket.parameters.full);
  if (bucket.parameters.form == shard::Form::packed) {
    if (bucket.ranks > 1)
      ++transfers[among("all-gather", bucket.axes, topology, bucket.parameters.packed_bytes * bucket.ranks)];
    if (bucket.on_host) ++transfers[{"host", 1, 1, bucket.parameters.packed_bytes}];
    ++transfers[{"decode", 1, 1, bucket.full_elements * size}];
    return;
  }
  std::int64_t bytes = 0;
  for (const auto& buffer : bucket.buffers)
    bytes += buffer.purpose == shard::Purpose::full_parameters ? buffer.bytes() : 0;
  if (bucket.ranks > 1) ++transfers[among("all-gather", bucket.axes, topology, bytes)];
  if (bucket.parameters.send_from == shard::SendFrom::cast)
    ++transfers[{"cast", 1, 1, bucket.shard_elements * (size + size_of(bucket.parameters.master))}];
  if (bucket.parameters.send_from == shard::SendFrom::host) ++transfers[{"host", 1, 1, bucket.shard_elements * size}];
}

plan::StepWork step_work(plan::MicroStepWork micro, const shard::ShardPlan& plan, const shard::EngineOptions& options,
                         const job::Topology& topology) {
  plan::StepWork work;
  work.replayed = replayed(micro, plan, options);
  work.micro = std::move(micro);
  const auto compute = size_of(options.precision.compute), master = size_of(options.precision.master);
  for (const auto& bucket : plan.buckets) {
    if (!bucket.trainable) continue;
    if (bucket.gradients.sum_by != shard::SumBy::nothing) add_reduction(bucket, options, topology, work);
    const auto full = static_cast<double>(bucket.full_elements);
    // Each micro-step's gradients are added to the sum, which the first writes.
    const auto gradient = bucket.shards_optim ? master : size_of(bucket.gradients.full_dtype);
    if (bucket.gradients.accumulates && !bucket.gradients.autograd)
      work.update_bytes += full * static_cast<double>(options.accumulation * (compute + 2 * gradient) - gradient);
    const auto own = bucket.shards_optim ? static_cast<double>(bucket.shard_elements) : full;
    if (bucket.on_host) {
      work.host_elements += own;
      work.micro.gathers[{"host", 1, 1, bucket.shard_elements * size_of(options.precision.reduce)}] += 1;
      continue;
    }
    // The norm reads the gradient; the rule reads it, reads and writes masters and states (below), and writes the copy.
    constexpr std::int64_t tensors = 2 + 2;
    const bool copies = compute < master && bucket.parameters.send_from != shard::SendFrom::cast;
    work.update_bytes += own * static_cast<double>(tensors * master + (copies ? compute : 0));
    work.updated += static_cast<std::int64_t>(bucket.weights.size());
    // Both read less where it stays in the compute dtype.
    work.update_bytes -= own * static_cast<double>(2 * (master - gradient));
  }
  work.update_bytes += state_traffic(plan, options);
  add_joint_updates(plan, options, topology, work);
  return work;
}

}  // namespace capstan::predict
