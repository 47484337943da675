#include "shard/plan.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace capstan::shard {
namespace {

using layout::Axis;

// Buffers are few numbers, of another type than the others: each rank has them.
bool is_buffer(const layout::Param& record) { return record.usage == layout::Usage::buffer && !record.trainable; }

strategy::ShardPolicy policy_of(const layout::Param& record, const EngineOptions& options) {
  auto policy = options.policy;
  if (is_buffer(record)) policy.shard_param = policy.offload_param = false;
  return policy;
}

// The records say how each role is sharded; all code that reads parameters uses them.
void set_roles(layout::Param& record, c10::ScalarType frozen, const EngineOptions& options) {
  const auto& precision = options.precision;
  const auto policy = policy_of(record, options);
  const auto sharded = record.sharded(options.mesh);
  const c10::Device host(c10::DeviceType::CPU);
  const auto master = record.trainable ? precision.master : frozen;
  const bool param_on_host = policy.offload_param || (policy.offload_optim && record.trainable);
  record.param = {policy.shard_param ? sharded : record.compute, master, param_on_host ? host : precision.device};
  record.grad = {policy.shard_grad ? sharded : record.compute, precision.master, precision.device};
  record.optim = {policy.shard_optim ? sharded : record.compute, precision.master,
                  policy.offload_optim ? host : precision.device};
}

std::int64_t parameters_of(const nn::Unit& unit) {
  std::int64_t sum = 0;
  for (const auto& weight : unit.weights()) sum += weight->numel();
  return sum;
}

// The dtype of what units compute with.
c10::ScalarType dtype_of(const nn::Weight& weight, const EngineOptions& options) {
  if (form_of(weight) == Form::rows) return c10::ScalarType::Byte;
  if (!is_buffer(weight.records().front())) return options.precision.compute;
  return c10::promoteTypes(options.precision.compute, c10::ScalarType::Float);
}

// Whether a unit is joined to those before it: `units` with `parameters`, `more` with its own.
bool joins(const strategy::BucketSize& size, std::size_t units, std::int64_t parameters, std::int64_t more) {
  using By = strategy::BucketSize::By;
  if (size.by == By::at_most) return parameters + more <= size.number;
  if (size.by == By::at_least) return parameters < size.number;
  return static_cast<std::int64_t>(units) < size.number;
}

// Neighbouring units, as many as the policy wants together.
std::vector<UnitRun> make_runs(const std::vector<nn::Unit*>& units, const EngineOptions& options) {
  const auto stages = options.stages.value_or(strategy::RankStages::whole(units));
  std::vector<UnitRun> runs;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto more = parameters_of(*units[i]);
    const auto stage = stages.of_unit(i);
    if (!runs.empty() && runs.back().stage == stage &&
        joins(options.policy.bucket_size, i - runs.back().first, elements, more)) {
      runs.back().last = i;
      elements += more;
    } else {
      runs.push_back({i, i});
      runs.back().stage = stage;
      elements = more;
    }
  }
  for (auto& run : runs) run.last_in_backward = std::max(run.first, stages.first_reached);
  return runs;
}

// A weight with the runs that use it.
struct Use {
  nn::WeightPtr weight;
  std::vector<std::size_t> runs;
};

std::vector<Use> uses_of(const std::vector<nn::Unit*>& units, const std::vector<std::size_t>& run_of_unit) {
  std::vector<Use> uses;
  std::map<const nn::Weight*, std::size_t> known;
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const auto& weight : units[i]->weights()) {
      const auto [found, is_new] = known.emplace(weight.get(), uses.size());
      if (is_new) uses.push_back({weight, {}});
      auto& runs = uses[found->second].runs;
      if (runs.empty() || runs.back() != run_of_unit[i]) runs.push_back(run_of_unit[i]);
    }
  }
  return uses;
}

// Each run's units.
std::vector<std::vector<nn::Unit*>> units_of(const std::vector<std::size_t>& runs, const ShardPlan& plan,
                                             const std::vector<nn::Unit*>& units) {
  std::vector<std::vector<nn::Unit*>> list;
  for (const auto run : runs) {
    const auto at = [&](std::size_t unit) { return units.begin() + static_cast<std::ptrdiff_t>(unit); };
    list.emplace_back(at(plan.runs[run].first), at(plan.runs[run].last + 1));
  }
  return list;
}

std::string run_name(const std::vector<nn::Unit*>& units, const UnitRun& run) {
  return run.first == run.last ? units[run.first]->name()
                               : cat(units[run.first]->name(), " to ", units[run.last]->name());
}

// Which roles are kept in shards, and where.
void set_sharding(BucketPlan& bucket, const strategy::ShardPolicy& policy) {
  const bool offloads = policy.offload_param || policy.offload_optim;
  // On one rank sharding saves nothing, but offloaded data moves in shards nevertheless.
  bucket.shards_param =
      bucket.parameters.form == Form::packed || (policy.shard_param && (bucket.ranks > 1 || offloads));
  bucket.shards_optim = bucket.trainable && policy.shard_optim && (bucket.ranks > 1 || policy.offload_optim);
  bucket.on_host =
      bucket.trainable ? bucket.shards_optim && policy.offload_optim : bucket.shards_param && policy.offload_param;
}

BucketPlan start_bucket(std::string name, const nn::Weight& weight, std::vector<std::size_t> runs,
                        const EngineOptions& options) {
  const auto& record = weight.records().front();
  const auto policy = policy_of(record, options);
  BucketPlan bucket;
  bucket.name = std::move(name);
  bucket.runs = std::move(runs);
  bucket.parameters.form = form_of(weight);
  if (policy.shard_param || bucket.parameters.form != Form::packed) bucket.axes = record.shard_axes();
  bucket.ranks = options.mesh.size(bucket.axes);
  const bool sums_copies =
      layout::has_axis(record.data_axes, Axis::replicate) && !layout::has_axis(record.local_axes, Axis::replicate);
  bucket.copies = sums_copies ? options.mesh.size(Axis::replicate) : 1;
  bucket.trainable = weight.trainable();
  bucket.parameters.full = dtype_of(weight, options);
  set_sharding(bucket, policy);
  return bucket;
}

// What the bucket's last weight adds to its all-reduces over axes other than data's.
void add_partials(BucketPlan& bucket, const layout::Mesh& mesh) {
  auto& partials = bucket.gradients.partials;
  const auto& records = bucket.weights.back().weight->records();
  for (std::size_t r = 0; r < records.size(); ++r) {
    const auto ranks = records[r].partial_ranks(mesh);
    if (records[r].partial_axes.empty() || ranks == 1) continue;
    const auto same = [&](const PartialSum& sum) { return sum.axes == records[r].partial_axes && sum.ranks == ranks; };
    auto found = std::find_if(partials.begin(), partials.end(), same);
    if (found == partials.end()) {
      const bool over_stages = layout::has_axis(records[r].partial_axes, Axis::pp);
      found = partials.insert(found, PartialSum{records[r].partial_axes, ranks, over_stages, {}});
    }
    found->records.push_back({bucket.weights.size() - 1, r});
  }
}

void add_weight(BucketPlan& bucket, nn::WeightPtr weight, const EngineOptions& options) {
  PlannedWeight planned;
  planned.sharding = shard_weight(*weight, options.mesh, options.rank, bucket.ranks);
  planned.weight = std::move(weight);
  planned.shard_offset = bucket.shard_elements;
  planned.full_offset = bucket.full_elements;
  if (bucket.parameters.form == Form::packed) pack(bucket, planned, options);
  bucket.shard_elements += planned.sharding.shard_elements;
  bucket.full_elements += planned.sharding.full_elements;
  bucket.weights.push_back(std::move(planned));
  if (bucket.trainable) add_partials(bucket, options.mesh);
}

// Some buckets stay on the device, as many as the policy says. They are the first ones: the next forward begins with
// them while others are updated, and their gradients, which come last, need not be copied to the host.
void keep_on_device(ShardPlan& plan, const EngineOptions& options) {
  std::int64_t left = 0;
  for (const auto& bucket : plan.buckets) left += bucket.trainable ? bucket.shard_elements : 0;
  left -= static_cast<std::int64_t>(std::ceil(static_cast<double>(left) * options.policy.offload_ratio));
  for (auto& bucket : plan.buckets) {
    const auto& partials = bucket.gradients.partials;
    // What stages share is summed after backward, when other sums are on their way to the host.
    const bool waits = std::any_of(partials.begin(), partials.end(), [](const auto& one) { return one.over_stages; });
    if (!bucket.trainable || !bucket.on_host || (bucket.shard_elements > left && !waits)) continue;
    left -= bucket.shard_elements;
    bucket.on_host = false;
    for (auto& planned : bucket.weights) {
      for (auto& record : planned.weight->records()) {
        record.param.device = options.precision.device;
        record.optim.device = options.precision.device;
      }
    }
  }
}

// The last run of the stage that a run is in.
std::size_t last_of_stage(const std::vector<UnitRun>& runs, std::size_t run) {
  while (run + 1 < runs.size() && runs[run + 1].stage == runs[run].stage) ++run;
  return run;
}

// A tied weight's gradient is complete when the backward of all its users is: at the end. A table's rows come there.
// What is summed apart from them is there before: a tied table's when its other user's backward is done, and that of a
// table that is only looked up when earlier micro-steps have added it up.
void set_order(BucketPlan& bucket, std::size_t last_run) {
  const bool is_tied = bucket.runs.size() > 1;
  if (bucket.gradients.table) {
    bucket.gradients.reduced_after = is_tied ? bucket.runs.back() : last_run;
  } else if (!is_tied) {
    bucket.gradients.reduced_after = bucket.runs.front();
  }
}

}  // namespace

ShardPlan make_plan(const std::vector<nn::Unit*>& units, const EngineOptions& options) {
  ShardPlan plan;
  plan.runs = make_runs(units, options);
  plan.run_of_unit.resize(units.size());
  for (std::size_t r = 0; r < plan.runs.size(); ++r) {
    for (auto i = plan.runs[r].first; i <= plan.runs[r].last; ++i) plan.run_of_unit[i] = r;
  }
  using Key = std::tuple<std::size_t, bool, Form, bool, std::vector<Axis>>;
  std::map<Key, std::size_t> own;
  for (auto& use : uses_of(units, plan.run_of_unit)) {
    for (auto& record : use.weight->records()) set_roles(record, dtype_of(*use.weight, options), options);
    const auto run = use.runs.front();
    std::size_t index = plan.buckets.size();
    const auto table = table_plan(*use.weight, units_of(use.runs, plan, units), options);
    if (use.runs.size() > 1 || table) {
      plan.buckets.push_back(start_bucket(use.weight->name(), *use.weight, use.runs, options));
      plan.buckets.back().gradients.table = table;
    } else {
      const auto& record = use.weight->records().front();
      const Key key{run, !use.weight->trainable(), form_of(*use.weight), is_buffer(record), record.shard_axes()};
      const auto [found, is_new] = own.emplace(key, index);
      if (is_new) plan.buckets.push_back(start_bucket(run_name(units, plan.runs[run]), *use.weight, use.runs, options));
      index = found->second;
    }
    add_weight(plan.buckets[index], use.weight, options);
  }
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    set_order(plan.buckets[b], last_of_stage(plan.runs, plan.buckets[b].runs.front()));
    for (const auto run : plan.buckets[b].runs) {
      plan.runs[run].buckets.push_back(b);
      plan.runs[run].packs = plan.runs[run].packs || plan.buckets[b].parameters.form == Form::packed;
    }
  }
  keep_on_device(plan, options);
  for (auto& bucket : plan.buckets) resolve(bucket, options);
  plan.staging = list_staging(plan, options);
  return plan;
}

}  // namespace capstan::shard
