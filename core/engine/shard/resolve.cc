// How a bucket's parameters and gradients are kept and moved.
#include <algorithm>

#include "shard/packing.h"
#include "shard/plan.h"

namespace capstan::shard {
namespace {

bool shards(const BucketPlan& bucket) { return bucket.shards_param || bucket.shards_optim; }

void resolve_parameters(BucketPlan& bucket, const EngineOptions& options) {
  const auto& policy = options.policy;
  auto& plan = bucket.parameters;
  plan.master = bucket.trainable ? options.precision.master : plan.full;
  const bool in_bytes = plan_bytes(bucket, options);
  if (bucket.on_host) {
    plan.send_from = bucket.shards_param && !policy.offload_param ? SendFrom::device_copy : SendFrom::host;
  } else if (shards(bucket) && plan.master != plan.full) {
    // Sharded ones are gathered twice a micro-step, and cast once an update unless memory counts more.
    plan.send_from = bucket.shards_param && !policy.cast_at_gather ? SendFrom::device_copy : SendFrom::cast;
  }
  if (bucket.parameters.form == Form::packed) {
    plan.gather_by = GatherBy::decoding;
    return;
  }
  const auto part = options.gathers_once ? 0 : policy.reshard_size;
  if (bucket.shards_param && part > 1 && part < bucket.ranks && bucket.ranks % part == 0)
    plan.reshard_ranks = static_cast<int>(part);
  if (!shards(bucket)) return;
  plan.gather_by = options.coalesce && plan.reshard_ranks == 0 ? GatherBy::in_place : GatherBy::unpacking;
  if (in_bytes) plan.gather_by = GatherBy::bytes_in_place;
}

SumBy sum_by(const BucketPlan& bucket, const EngineOptions& options) {
  const bool is_overridden = options.reduce_overrides.contains(layout::Axis::dp);
  if (!bucket.trainable || (bucket.ranks == 1 && bucket.copies == 1 && !bucket.shards_optim)) return SumBy::nothing;
  if (!bucket.shards_optim)
    return options.deterministic && !is_overridden ? SumBy::reduce_scatter_all_gather : SumBy::all_reduce;
  const auto& precision = options.precision;
  const auto read = options.waits() ? precision.master : precision.compute;
  const bool in_place = options.coalesce && !options.deterministic && !is_overridden && precision.reduce == read;
  if (in_place) return SumBy::reduce_scatter_in_place;
  const bool halves = read == precision.compute && c10::elementSize(precision.reduce) == 2 * c10::elementSize(read);
  const bool exchanges = options.policy.exchange_gradients && halves && !options.deterministic && !is_overridden;
  return exchanges && bucket.ranks > 1 ? SumBy::exchange : SumBy::reduce_scatter;
}

// Decides in which dtype gradients are kept, and whether in memory of the engine's.
void keep_gradients(BucketPlan& bucket, const EngineOptions& options) {
  const auto& precision = options.precision;
  auto& plan = bucket.gradients;
  const bool is_only_sum = bucket.trainable && plan.sum_by == SumBy::nothing && !options.accumulates();
  const bool stays = is_only_sum && plan.partials.empty();
  plan.full_dtype = stays ? precision.compute : precision.master;
  // Autograd's tensors have no padding, so AdamW's tail rounds differently: not used under `deterministic`. They are
  // other memory each time, which a graph cannot be recorded for; where other ranks compute experts none is.
  const bool others_sum = options.mesh.size(layout::data_axes) > 1;
  plan.autograd =
      is_only_sum && !options.deterministic && (precision.compute == precision.master || (stays && others_sum));
}

void resolve_gradients(BucketPlan& bucket, const EngineOptions& options) {
  const auto& precision = options.precision;
  auto& plan = bucket.gradients;
  plan.sum_by = sum_by(bucket, options);
  // What one micro-step sums whole has full buffers anyway; rows of lookups may be all that there is to sum.
  plan.accumulates = options.waits() || plan.sum_by == SumBy::nothing ||
                     !(options.accumulates() || bucket.shards_optim || plan.only_looked_up());
  keep_gradients(bucket, options);
  plan.on_host = bucket.trainable && bucket.on_host;
  const bool narrow = c10::elementSize(precision.reduce) < c10::elementSize(precision.master);
  plan.first_dtype = narrow ? precision.reduce : precision.master;
  plan.only_dtype = plan.partials.empty() ? plan.first_dtype : precision.master;
  plan.adding_dtype = precision.master;
}

void list_full_parameters(BucketPlan& bucket) {
  for (std::size_t i = 0; i < bucket.weights.size(); ++i) {
    bucket.buffers.push_back({Purpose::full_parameters, bucket.weights[i].sharding.full_elements,
                              bucket.weights[i].in_bytes ? c10::ScalarType::Byte : bucket.parameters.full,
                              Memory::device, bucket.shards_param ? Lifetime::acquired : Lifetime::always, i});
  }
}

// Bytes, which a gather brings to the device and those of all ranks together, where they are not there already.
void list_packed(BucketPlan& bucket, const EngineOptions& options) {
  const auto pinned = options.policy.pin_memory ? Memory::pinned_host : Memory::host;
  const auto bytes = bucket.parameters.packed_bytes;
  bucket.buffers.push_back({Purpose::packed, bytes, c10::ScalarType::Byte, bucket.on_host ? pinned : Memory::device});
  const auto arriving = (bucket.on_host ? bytes : 0) + (bucket.ranks > 1 ? bytes * bucket.ranks : 0);
  if (arriving > 0) {
    bucket.buffers.push_back(
        {Purpose::packed_gathered, arriving, c10::ScalarType::Byte, Memory::device, Lifetime::gathering});
  }
  list_full_parameters(bucket);
}

// Elements that a gather has in memory besides in the compute dtype: what comes from the host, and what becomes bytes,
// one weight after the other.
std::int64_t sent_temporarily(const BucketPlan& bucket) {
  const auto from = bucket.parameters.send_from;
  if (from == SendFrom::host) return bucket.shard_elements;
  std::int64_t most = 0;
  for (const auto& planned : bucket.weights) {
    if (planned.in_bytes && from == SendFrom::cast) most = std::max(most, planned.sharding.shard_elements);
  }
  return most;
}

// Masters on the host are sent directly if they are in the compute dtype, else from a cast copy.
void list_parameters(BucketPlan& bucket, const EngineOptions& options) {
  const auto compute = bucket.parameters.full, master = bucket.parameters.master;
  const auto reshard_ranks = bucket.parameters.reshard_ranks;
  const bool casts = master != compute;
  const auto pinned = options.policy.pin_memory ? Memory::pinned_host : Memory::host;
  const bool gathers = bucket.parameters.gathers();
  if (gathers || casts) {
    const auto elements = gathers ? bucket.shard_elements : bucket.full_elements;
    const auto memory = !bucket.on_host ? Memory::device : casts ? Memory::host : pinned;
    bucket.buffers.push_back({Purpose::master, elements, master, memory});
  }
  if (bucket.on_host && casts)
    bucket.buffers.push_back({Purpose::send_on_host, bucket.shard_elements, compute, pinned});
  if (bucket.parameters.send_from == SendFrom::device_copy)
    bucket.buffers.push_back({Purpose::send_on_device, bucket.shard_elements, compute});
  const auto temporary = sent_temporarily(bucket);
  if (temporary > 0)
    bucket.buffers.push_back({Purpose::send_temporary, temporary, compute, Memory::device, Lifetime::gathering});
  if (reshard_ranks > 0) {
    const auto elements = bucket.shard_elements * (bucket.ranks / reshard_ranks);
    bucket.buffers.push_back({Purpose::regather, elements, compute, Memory::device, Lifetime::regather});
  }
  list_full_parameters(bucket);
}

// Gradients are accumulated in full buffers unless they are summed at once or read as they are.
void list_gradients(BucketPlan& bucket, const EngineOptions& options) {
  const auto& plan = bucket.gradients;
  const auto master = options.precision.master;
  if (bucket.shards_optim ? plan.accumulates : !plan.autograd)
    bucket.buffers.push_back({Purpose::gradient_full, bucket.full_elements, plan.full_dtype});
  if (bucket.shards_optim && !plan.on_host)
    bucket.buffers.push_back({Purpose::gradient_shard, bucket.shard_elements, master});
  if (plan.on_host) {
    const bool adds = options.accumulates() && !options.waits();
    bucket.buffers.push_back({Purpose::gradient_on_host, bucket.shard_elements, plan.offload_dtype(!adds, true),
                              options.policy.pin_memory ? Memory::pinned_host : Memory::host});
  }
  for (std::size_t i = 0; plan.autograd && i < bucket.weights.size(); ++i) {
    const auto elements = bucket.weights[i].sharding.numel;
    bucket.buffers.push_back(
        {Purpose::gradient_autograd, elements, plan.full_dtype, Memory::device, Lifetime::always, i});
  }
}

// Counts elements of the compute dtype, which the buffer has.
std::int64_t gather_elements(const BucketPlan& bucket, c10::ScalarType compute) {
  const auto by = bucket.parameters.gather_by;
  std::int64_t staged = 0;  // a rank's part, in the dtype that the bucket gathers
  for (const auto& planned : bucket.weights) {
    const bool is_staged = by == GatherBy::unpacking || !planned.sharding.in_place;
    if (bucket.parameters.gathers() && by != GatherBy::decoding && is_staged) staged += planned.sharding.shard_elements;
  }
  return staged * bucket.ranks * static_cast<std::int64_t>(c10::elementSize(bucket.parameters.full)) /
         static_cast<std::int64_t>(c10::elementSize(compute));
}

// Where a strategy sums, it is to see a whole bucket.
std::int64_t staged_elements(const BucketPlan& bucket, const EngineOptions& options) {
  if (options.reduce_overrides.contains(layout::Axis::dp)) return bucket.shard_elements * bucket.ranks;
  std::int64_t most = 0;
  for (const auto& piece : pieces_of(bucket, options.most_staged)) most = std::max(most, piece.size());
  return most * bucket.ranks;
}

std::int64_t reduce_elements(const BucketPlan& bucket, const EngineOptions& options) {
  const bool casts_or_adds =
      options.precision.reduce != options.precision.master || (options.accumulates() && !options.waits());
  if (bucket.gradients.only_looked_up() && !bucket.gradients.accumulates) return 0;
  switch (bucket.gradients.sum_by) {
    case SumBy::nothing:
      return 0;
    case SumBy::all_reduce:
      return casts_or_adds ? bucket.full_elements : 0;
    case SumBy::reduce_scatter:
    case SumBy::exchange:
    case SumBy::reduce_scatter_all_gather:
      return staged_elements(bucket, options);
    case SumBy::reduce_scatter_in_place:
      break;
  }
  // Autograd's gradients have no padding.
  std::int64_t sum = 0;
  for (const auto& planned : bucket.weights) {
    const bool is_read = bucket.gradients.accumulates ? planned.sharding.in_place : planned.sharding.even;
    sum += is_read ? 0 : planned.sharding.shard_elements * bucket.ranks;
  }
  return sum;
}

bool needs_sum_staging(const BucketPlan& bucket, const EngineOptions& options) {
  const bool casts = options.precision.reduce != options.precision.master;
  if (!bucket.shards_optim) return bucket.gradients.sum_by == SumBy::reduce_scatter_all_gather;
  if (const auto* host = bucket.buffer(Purpose::gradient_on_host))
    return casts && host->dtype != options.precision.reduce;
  return casts || (options.accumulates() && !options.waits());
}

std::int64_t partial_elements(const BucketPlan& bucket) {
  std::int64_t most = 0;
  for (const auto& partial : bucket.gradients.partials) {
    std::int64_t sum = 0;
    for (const auto& [weight, record] : partial.records) {
      // The first rank has the most.
      const auto& sharding = bucket.weights[weight].sharding;
      sum += bucket.shards_optim ? sharding.shard(record, 0).numel : sharding.numels[record];
    }
    most = std::max(most, sum);
  }
  return most;
}

// Buffers for shards being sent to the host, and for sums that are copied back. Backward produces gradients somewhat
// faster than PCIe moves them: gradients that wait here do not delay it. Together they have up to half the size of all
// shards, or two.
void list_offload_staging(const ShardPlan& plan, const EngineOptions& options, Buffers& staging) {
  constexpr std::int64_t least = 2;  // one is summed while the other is sent
  constexpr std::int64_t most = 8;
  std::int64_t buckets = 0;
  std::int64_t elements = 0;
  std::int64_t largest = 0;
  Buffer down{Purpose::offload_staging, 0, c10::ScalarType::Byte};
  Buffer up{Purpose::return_staging, 0, c10::ScalarType::Byte};
  for (const auto& bucket : plan.buckets) {
    const auto* host = bucket.buffer(Purpose::gradient_on_host);
    if (!host) continue;
    ++buckets;
    elements += bucket.shard_elements;
    largest = std::max(largest, bucket.shard_elements);
    down.elements = std::max(down.elements, host->bytes());
    // With two micro-steps only the first one's sum is copied back.
    const auto dtype = bucket.gradients.offload_dtype(options.accumulation == 2, false);
    up.elements = std::max(up.elements, bucket.shard_elements * static_cast<std::int64_t>(c10::elementSize(dtype)));
  }
  if (buckets == 0) return;
  const auto count = std::min(buckets, std::clamp(elements / (2 * largest), least, most));
  const bool comes_back = options.accumulates() && !options.waits();
  staging.insert(staging.end(), static_cast<std::size_t>(count), down);
  if (comes_back) staging.insert(staging.end(), static_cast<std::size_t>((count + 1) / 2), up);
}

}  // namespace

void resolve(BucketPlan& bucket, const EngineOptions& options) {
  resolve_parameters(bucket, options);
  resolve_gradients(bucket, options);
  if (bucket.parameters.form == Form::packed) {
    list_packed(bucket, options);
  } else {
    list_parameters(bucket, options);
  }
  if (bucket.trainable) list_gradients(bucket, options);
}

Buffers list_staging(const ShardPlan& plan, const EngineOptions& options) {
  const auto& precision = options.precision;
  Buffer gather{Purpose::gather_staging, 0, precision.compute};
  Buffer reduce{Purpose::reduce_staging, 0, precision.reduce};
  Buffer sum{Purpose::sum_staging, 0, precision.reduce};
  Buffer partial{Purpose::partial_staging, 0, precision.master};
  for (const auto& bucket : plan.buckets) {
    gather.elements = std::max(gather.elements, gather_elements(bucket, precision.compute));
    reduce.elements = std::max(reduce.elements, reduce_elements(bucket, options));
    if (needs_sum_staging(bucket, options)) sum.elements = std::max(sum.elements, bucket.shard_elements);
    partial.elements = std::max(partial.elements, partial_elements(bucket));
  }
  Buffers staging{gather, reduce, sum, partial};
  list_offload_staging(plan, options, staging);
  return staging;
}

}  // namespace capstan::shard
