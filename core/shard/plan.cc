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

// The records say where each role lies; everything that reads parameters goes by them.
void set_roles(layout::Param& record, const EngineOptions& options) {
  const auto& precision = options.precision;
  const auto& policy = options.policy;
  const auto cut = record.sharded(options.mesh);
  const c10::Device host(c10::DeviceType::CPU);
  const auto master = record.trainable ? precision.master : precision.compute;
  const bool param_on_host = policy.offload_param || (policy.offload_optim && record.trainable);
  record.param = {policy.shard_param ? cut : record.compute, master, param_on_host ? host : precision.device};
  record.grad = {policy.shard_grad ? cut : record.compute, precision.master, precision.device};
  record.optim = {policy.shard_optim ? cut : record.compute, precision.master,
                  policy.offload_optim ? host : precision.device};
}

std::int64_t parameters_of(const nn::Unit& unit) {
  std::int64_t sum = 0;
  for (const auto& weight : unit.weights()) sum += weight->numel();
  return sum;
}

// Neighbouring units, as many as the policy wants together.
std::vector<Run> make_runs(const std::vector<nn::Unit*>& units, const strategy::ShardPolicy& policy) {
  std::vector<Run> runs;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto more = parameters_of(*units[i]);
    const bool fits = policy.bucket_elements > 0
                          ? elements + more <= policy.bucket_elements
                          : !runs.empty() && static_cast<std::int64_t>(i - runs.back().first) < policy.units_per_bucket;
    if (!runs.empty() && fits) {
      runs.back().last = i;
      elements += more;
    } else {
      runs.push_back({i, i, true, {}});
      elements = more;
    }
  }
  bool reached = false;
  for (auto& run : runs) {
    for (auto i = run.first; i <= run.last; ++i) reached = reached || units[i]->trainable();
    run.trainable = reached;
  }
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

std::string run_name(const std::vector<nn::Unit*>& units, const Run& run) {
  return run.first == run.last ? units[run.first]->name()
                               : cat(units[run.first]->name(), " to ", units[run.last]->name());
}

BucketPlan start_bucket(std::string name, const nn::Weight& weight, std::vector<std::size_t> runs,
                        const EngineOptions& options) {
  const auto& record = weight.records().front();
  const auto& policy = options.policy;
  BucketPlan bucket;
  bucket.name = std::move(name);
  bucket.runs = std::move(runs);
  bucket.axes = record.shard_axes();
  bucket.ranks = options.mesh.size(bucket.axes);
  const bool sums_copies =
      layout::has_axis(record.data_axes, Axis::replicate) && !layout::has_axis(record.local_axes, Axis::replicate);
  bucket.copies = sums_copies ? options.mesh.size(Axis::replicate) : 1;
  bucket.trainable = weight.trainable();
  bucket.offloads = bucket.trainable ? policy.offload_optim : policy.offload_param;
  // On one rank a cut saves nothing; what is offloaded moves in pieces all the same.
  bucket.cut_param = policy.shard_param && (bucket.ranks > 1 || policy.offload_param || policy.offload_optim);
  bucket.cut_optim = bucket.trainable && policy.shard_optim && (bucket.ranks > 1 || policy.offload_optim);
  return bucket;
}

// What the bucket's last weight adds to its all-reduces over other axes than data's.
void add_partials(BucketPlan& bucket, const layout::Mesh& mesh) {
  const auto& records = bucket.weights.back().weight->records();
  for (std::size_t r = 0; r < records.size(); ++r) {
    const auto ranks = records[r].partial_ranks(mesh);
    if (records[r].partial_axes.empty() || ranks == 1) continue;
    const auto same = [&](const PartialSum& sum) { return sum.axes == records[r].partial_axes && sum.ranks == ranks; };
    auto found = std::find_if(bucket.partials.begin(), bucket.partials.end(), same);
    if (found == bucket.partials.end())
      found = bucket.partials.insert(found, PartialSum{records[r].partial_axes, ranks, {}});
    found->records.push_back({bucket.weights.size() - 1, r});
  }
}

void add_weight(BucketPlan& bucket, nn::WeightPtr weight, const EngineOptions& options) {
  PlannedWeight planned;
  planned.cut = cut_weight(*weight, options.mesh, options.rank, bucket.ranks);
  planned.weight = std::move(weight);
  planned.slab_offset = bucket.slab;
  planned.whole_offset = bucket.whole;
  bucket.slab += planned.cut.chunk_room;
  bucket.whole += planned.cut.whole_room;
  bucket.weights.push_back(std::move(planned));
  if (bucket.trainable) add_partials(bucket, options.mesh);
}

}  // namespace

std::int64_t BucketPlan::summed_elements(const PartialRecord& partial) const {
  const auto& planned = weights[partial.weight];
  if (cut_optim) return planned.cut.pieces.front()[partial.record].numel;
  std::int64_t sum = 0;
  for (const auto& pieces : planned.cut.pieces) sum += pieces[partial.record].numel;
  return sum;
}

namespace {

// Whole buckets stay on the device, as many as the policy leaves there. The first ones: the next forward begins with
// them while others are updated, and their gradients, which come last, need not go down.
void keep_on_device(Plan& plan, const EngineOptions& options) {
  std::int64_t room = 0;
  for (const auto& bucket : plan.buckets) room += bucket.trainable ? bucket.slab : 0;
  room -= static_cast<std::int64_t>(std::ceil(static_cast<double>(room) * options.policy.offload_ratio));
  for (auto& bucket : plan.buckets) {
    if (!bucket.trainable || !bucket.offloads || bucket.slab > room) continue;
    room -= bucket.slab;
    bucket.offloads = false;
    for (auto& planned : bucket.weights) {
      for (auto& record : planned.weight->records()) {
        record.param.device = options.precision.device;
        record.optim.device = options.precision.device;
      }
    }
  }
}

}  // namespace

Plan make_plan(const std::vector<nn::Unit*>& units, const EngineOptions& options) {
  Plan plan;
  plan.runs = make_runs(units, options.policy);
  plan.run_of_unit.resize(units.size());
  for (std::size_t r = 0; r < plan.runs.size(); ++r) {
    for (auto i = plan.runs[r].first; i <= plan.runs[r].last; ++i) plan.run_of_unit[i] = r;
  }
  using Key = std::tuple<std::size_t, bool, std::vector<Axis>>;
  std::map<Key, std::size_t> own;
  for (auto& use : uses_of(units, plan.run_of_unit)) {
    for (auto& record : use.weight->records()) set_roles(record, options);
    const auto run = use.runs.front();
    std::size_t index = plan.buckets.size();
    if (use.runs.size() > 1) {
      plan.buckets.push_back(start_bucket(use.weight->name(), *use.weight, use.runs, options));
    } else {
      const Key key{run, !use.weight->trainable(), use.weight->records().front().shard_axes()};
      const auto [found, is_new] = own.emplace(key, index);
      if (is_new) plan.buckets.push_back(start_bucket(run_name(units, plan.runs[run]), *use.weight, use.runs, options));
      index = found->second;
    }
    add_weight(plan.buckets[index], use.weight, options);
  }
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    for (const auto run : plan.buckets[b].runs) plan.runs[run].buckets.push_back(b);
  }
  keep_on_device(plan, options);
  return plan;
}

c10::ScalarType master_dtype(const BucketPlan& bucket, const EngineOptions& options) {
  return bucket.trainable ? options.precision.master : options.precision.compute;
}

SendFrom send_from(const BucketPlan& bucket, const EngineOptions& options) {
  const bool casts = master_dtype(bucket, options) != options.precision.compute;
  // What is gathered twice a micro-step is cast once an update.
  if (!bucket.on_host())
    return bucket.cut_param && casts && bucket.trainable ? SendFrom::device_copy : SendFrom::master;
  return bucket.cut_param && !options.policy.offload_param ? SendFrom::device_copy : SendFrom::host;
}

GradientStorage gradient_storage(const BucketPlan& bucket, const EngineOptions& options) {
  GradientStorage storage;
  if (!bucket.trainable) return storage;
  storage.piece = bucket.cut_optim;
  storage.passes = bucket.on_host();
  if (bucket.cut_optim) {
    storage.whole = options.waits();
  } else {
    const auto& precision = options.precision;
    // Autograd's tensors have no padding, behind which AdamW rounds otherwise: not where bits are promised.
    storage.raw =
        !bucket.reduces() && !options.accumulates() && precision.compute == precision.master && !options.deterministic;
    storage.whole = !storage.raw;
  }
  return storage;
}

c10::ScalarType passing_dtype(const BucketPlan& bucket, const EngineOptions& options, bool written, bool last) {
  const auto& precision = options.precision;
  const bool narrow = c10::elementSize(precision.reduce) < c10::elementSize(precision.master);
  const bool adds_parts = last && !bucket.partials.empty();
  return narrow && written && !adds_parts ? precision.reduce : precision.master;
}

c10::ScalarType host_gradient_dtype(const BucketPlan& bucket, const EngineOptions& options) {
  return passing_dtype(bucket, options, !options.accumulates() || options.waits(), /*last=*/true);
}

std::int64_t trainable_parameters(const Plan& plan) {
  std::int64_t sum = 0;
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) sum += bucket.trainable ? planned.weight->numel() : 0;
  }
  return sum;
}

bool reshards(const BucketPlan& bucket, const strategy::ShardPolicy& policy) {
  const auto part = policy.reshard_size;
  return bucket.cut_param && part > 1 && part < bucket.ranks && bucket.ranks % part == 0;
}

bool gathers_in_place(const BucketPlan& bucket, const EngineOptions& options) {
  return options.coalesce && !reshards(bucket, options.policy);
}

bool reduces_in_place(const EngineOptions& options, bool waited) {
  const auto& precision = options.precision;
  return options.coalesce && !options.deterministic && !options.reduce_seats.contains(layout::Axis::dp) &&
         precision.reduce == (waited ? precision.master : precision.compute);
}

namespace {

// Rooms for pieces on their way to the host, and for what comes back to be added to. Backward makes gradients somewhat
// faster than PCIe takes them: what waits in rooms does not hold it up. Together they take up to half of what all
// pieces would, or two.
void add_rooms(ScratchSizes& sizes, const Plan& plan, const EngineOptions& options) {
  constexpr std::int64_t least_rooms = 2;  // one is summed while the other is sent
  constexpr std::int64_t most_rooms = 8;
  std::int64_t buckets = 0;
  std::int64_t elements = 0;
  std::int64_t largest = 0;
  const bool comes_back = options.accumulates() && !options.waits();
  for (const auto& bucket : plan.buckets) {
    if (!gradient_storage(bucket, options).passes) continue;
    const auto bytes = [&](c10::ScalarType dtype) {
      return bucket.slab * static_cast<std::int64_t>(c10::elementSize(dtype));
    };
    ++buckets;
    elements += bucket.slab;
    largest = std::max(largest, bucket.slab);
    sizes.room = std::max(sizes.room, bytes(host_gradient_dtype(bucket, options)));
    // With two micro-steps only the first one's sum comes back.
    const auto back = options.accumulation > 2 ? options.precision.master : passing_dtype(bucket, options, true, false);
    if (comes_back) sizes.back = std::max(sizes.back, bytes(back));
  }
  if (buckets == 0) return;
  sizes.rooms = std::min(buckets, std::clamp(elements / (2 * largest), least_rooms, most_rooms));
  if (comes_back) sizes.backs = (sizes.rooms + 1) / 2;
}

}  // namespace

ScratchSizes scratch_sizes(const Plan& plan, const EngineOptions& options) {
  ScratchSizes sizes;
  const bool casts = options.precision.reduce != options.precision.master;
  const bool adds = options.accumulates() && !options.waits();
  for (const auto& bucket : plan.buckets) {
    const auto all = bucket.slab * bucket.ranks;
    std::int64_t uneven = 0;
    std::int64_t out_of_place = 0;
    for (const auto& planned : bucket.weights) {
      const auto room = planned.cut.chunk_room * bucket.ranks;
      if (!planned.cut.even) uneven += room;
      if (!planned.cut.in_place) out_of_place += room;
    }
    for (const auto& partial : bucket.partials) {
      std::int64_t elements = 0;
      for (const auto& record : partial.records) elements += bucket.summed_elements(record);
      sizes.partial = std::max(sizes.partial, elements);
    }
    if (bucket.gathers()) sizes.gather = std::max(sizes.gather, gathers_in_place(bucket, options) ? out_of_place : all);
    if (!bucket.reduces()) continue;
    const bool in_slabs = bucket.cut_optim || options.deterministic;
    const bool in_place = bucket.cut_optim && reduces_in_place(options, options.waits());
    if (in_slabs) sizes.reduce = std::max(sizes.reduce, !in_place ? all : options.waits() ? out_of_place : uneven);
    if (!in_slabs && (casts || adds)) sizes.reduce = std::max(sizes.reduce, bucket.whole);
    const bool passes = bucket.on_host();
    const bool casts_sum =
        passes ? casts && host_gradient_dtype(bucket, options) != options.precision.reduce : casts || adds;
    if (bucket.cut_optim ? casts_sum : in_slabs) sizes.shard = std::max(sizes.shard, bucket.slab);
  }
  add_rooms(sizes, plan, options);
  return sizes;
}

}  // namespace capstan::shard
