// What a plan's engine allocates, part by part.
#include <c10/core/ScalarType.h>

#include <algorithm>

#include "shard/plan.h"

namespace capstan::shard {
namespace {

std::int64_t size(c10::ScalarType type) { return static_cast<std::int64_t>(c10::elementSize(type)); }

// Elements that norm and rule see of a bucket.
std::int64_t updated(const BucketPlan& bucket, const EngineOptions& options) {
  if (bucket.cut_optim) return bucket.slab;
  if (!gradient_storage(bucket, options).raw) return bucket.whole;
  std::int64_t sum = 0;  // autograd's own gradients have no padding, nor does what goes with them
  for (const auto& planned : bucket.weights) sum += planned.cut.numel;
  return sum;
}

// Whole copies that come and go, of the runs that are there at once.
std::int64_t gathered(const Plan& plan, const EngineOptions& options) {
  std::vector<std::int64_t> runs;
  std::int64_t all = 0;
  for (const auto& run : plan.runs) {
    std::int64_t sum = 0;
    for (const auto b : run.buckets) sum += plan.buckets[b].cut_param ? plan.buckets[b].whole : 0;
    runs.push_back(sum);
  }
  for (const auto& bucket : plan.buckets) all += bucket.cut_param ? bucket.whole : 0;
  const auto& policy = options.policy;
  if (!policy.reshard_after_forward || !policy.limit_all_gathers) return all;
  const bool ahead = policy.forward_prefetch || policy.backward_prefetch != strategy::BackwardPrefetch::none;
  std::int64_t most = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    most = std::max(most, runs[r] + (ahead && r + 1 < runs.size() ? runs[r + 1] : 0));
  return std::min(most, all);
}

struct Sums {
  std::int64_t device = 0;
  std::int64_t host = 0;
};

Sums parameters(const Plan& plan, const EngineOptions& options) {
  Sums sums;
  const auto compute = size(options.precision.compute);
  for (const auto& bucket : plan.buckets) {
    const auto dtype = master_dtype(bucket, options);
    const bool cut = bucket.gathers();
    const bool apart = !bucket.cut_param && (cut || dtype != options.precision.compute);
    if (!bucket.cut_param) sums.device += bucket.whole * (apart ? compute : size(dtype));
    if (cut || apart) {
      (bucket.on_host() ? sums.host : sums.device) += (cut ? bucket.slab : bucket.whole) * size(dtype);
    }
    const auto from = send_from(bucket, options);
    if (from == SendFrom::device_copy) sums.device += bucket.slab * compute;
    if (bucket.on_host() && dtype != options.precision.compute) sums.host += bucket.slab * compute;
  }
  return sums;
}

}  // namespace

std::vector<layout::Footprint> footprint(const Plan& plan, const EngineOptions& options, std::size_t states) {
  const auto& precision = options.precision;
  const auto master = size(precision.master);
  const auto params = parameters(plan, options);
  Sums grads;
  Sums optim;
  std::int64_t kept = 0;
  for (const auto& bucket : plan.buckets) {
    const auto storage = gradient_storage(bucket, options);
    const auto n = updated(bucket, options);
    if (storage.whole) grads.device += bucket.whole * master;
    if (storage.piece && !storage.passes) grads.device += bucket.slab * master;
    if (storage.raw) grads.device += n * master;
    const bool on_host = bucket.on_host();
    if (storage.passes) grads.host += bucket.slab * size(host_gradient_dtype(bucket, options));
    if (bucket.trainable) (on_host ? optim.host : optim.device) += n * master * static_cast<std::int64_t>(states);
    if (reshards(bucket, options.policy)) kept += bucket.slab * (bucket.ranks / options.policy.reshard_size);
  }
  const auto scratch = scratch_sizes(plan, options);
  const auto buffers = scratch.gather * size(precision.compute) +
                       (scratch.reduce + scratch.shard) * size(precision.reduce) + scratch.partial * master;
  const std::string device = c10::DeviceTypeName(precision.device.type(), true);
  std::vector<layout::Footprint> list{{"parameters", params.device, device, "always"},
                                      {"gradients", grads.device, device, "always"},
                                      {"optimizer state", optim.device, device, "always"},
                                      {"collective buffers", buffers, device, "always"}};
  if (scratch.rooms > 0) {
    list.push_back(
        {"gradients on their way", scratch.rooms * scratch.room + scratch.backs * scratch.back, device, "always"});
  }
  const auto gathered_bytes = gathered(plan, options) * size(precision.compute);
  list.push_back({"gathered units", gathered_bytes, device, "forward"});
  if (kept > 0) list.push_back({"kept after forward", kept * size(precision.compute), device, "forward"});
  if (params.host > 0) list.push_back({"offloaded parameters", params.host, "host", "always"});
  if (grads.host > 0) list.push_back({"offloaded gradients", grads.host, "host", "always"});
  if (optim.host > 0) list.push_back({"offloaded optimizer state", optim.host, "host", "always"});
  return list;
}

}  // namespace capstan::shard
