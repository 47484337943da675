#include "shard/footprint.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <string>

#include "shard/counting_executor.h"
#include "shard/gather_protocol.h"
#include "shard/slices.h"
#include "strategy/joint_updates.h"

namespace capstan::shard {
namespace {

// A prediction's name for a group of buffers.
std::string part_of(Purpose purpose, bool on_host) {
  const auto* const offloaded = on_host ? "offloaded " : "";
  if (purpose <= Purpose::regather) return cat(offloaded, "parameters");
  if (purpose <= Purpose::gradient_on_host) return cat(offloaded, "gradients");
  if (purpose == Purpose::optimizer_state) return cat(offloaded, "optimizer state");
  return purpose <= Purpose::partial_staging ? "collective buffers" : "gradients on their way";
}

// Permanent bytes, by part.
std::map<std::string, std::int64_t> permanent(const ShardPlan& plan, const EngineOptions& options) {
  std::map<std::string, std::int64_t> bytes;
  const auto add = [&](const Buffers& buffers) {
    for (const auto& buffer : buffers) {
      if (buffer.lifetime != Lifetime::always) continue;
      bytes[part_of(buffer.purpose, buffer.is_on_host())] += buffer.bytes();
    }
  };
  for (const auto& bucket : plan.buckets) add(bucket.buffers);
  add(plan.staging);
  if (!options.optimizer) return bytes;
  const auto joint = strategy::state_bytes(joint_updates(plan, options), /*only_saved=*/false);
  bytes[part_of(Purpose::optimizer_state, false)] += joint.device;
  bytes[part_of(Purpose::optimizer_state, true)] += joint.host;
  for (const auto& slice : plan_slices(plan, options))
    bytes[part_of(Purpose::optimizer_state, plan.buckets[slice.bucket].on_host)] += slice.state_bytes();
  return bytes;
}

std::int64_t sum_of(const ShardPlan& plan, Lifetime lifetime) {
  std::int64_t sum = 0;
  for (const auto& bucket : plan.buckets) {
    for (const auto& buffer : bucket.buffers) sum += buffer.lifetime == lifetime ? buffer.bytes() : 0;
  }
  return sum;
}

// The peak of full parameters: runs forward's and backward's hooks without computing.
std::int64_t most_acquired(const ShardPlan& plan, const EngineOptions& options) {
  // Without the limit gathers run as far ahead as the host does.
  if (!options.policy.limit_all_gathers) return sum_of(plan, Lifetime::acquired);
  std::int64_t now = 0;
  std::int64_t most = 0;
  CountingExecutor executor(plan, [&](const Buffer& buffer, std::int64_t bytes) {
    if (buffer.lifetime == Lifetime::acquired) now += bytes;
    most = std::max(most, now);
  });
  GatherProtocol protocol(plan, options, executor);
  for (std::size_t r = 0; r < plan.runs.size(); ++r) {
    protocol.before_forward(r, true);
    protocol.after_forward(r, true);
  }
  for (std::size_t r = plan.runs.size(); r-- > 0 && plan.runs[r].trainable();) {
    protocol.before_backward(r);
    protocol.after_backward(r);
  }
  return most;
}

}  // namespace

std::vector<layout::Footprint> footprint(const ShardPlan& plan, const EngineOptions& options) {
  auto bytes = permanent(plan, options);
  const std::string device = c10::DeviceTypeName(options.precision.device.type(), true);
  std::vector<layout::Footprint> list;
  for (const auto* part : {"parameters", "gradients", "optimizer state", "collective buffers"})
    list.push_back({part, bytes[part], device, "always"});
  const auto add_if_any = [&](const std::string& part, std::int64_t size, const std::string& where, const char* when) {
    if (size > 0) list.push_back({part, size, where, when});
  };
  add_if_any("gradients on their way", bytes["gradients on their way"], device, "always");
  list.push_back({"gathered units", most_acquired(plan, options), device, "forward"});
  add_if_any("kept after forward", sum_of(plan, Lifetime::regather), device, "forward");
  for (const auto* part : {"offloaded parameters", "offloaded gradients", "offloaded optimizer state"})
    add_if_any(part, bytes[part], "host", "always");
  if (!options.optimizer) return list;
  for (const auto& one : strategy::memory_of(joint_updates(plan, options)))
    add_if_any(one.part, one.bytes, one.device, "update");
  return list;
}

void HeldMemory::add(Purpose purpose, const at::Tensor& tensor, bool on_host, bool gathered) {
  if (!tensor.defined() || !counted_.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
  auto name = part_of(purpose, on_host);
  if (gathered) name = "gathered units";
  if (purpose == Purpose::regather) name = "kept after forward";
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  for (auto& part : parts_) {
    if (part.part != name) continue;
    part.bytes += bytes;
    return;
  }
  parts_.push_back({name, bytes, on_host ? "host" : device_, "now"});
}

std::int64_t parameters(const ShardPlan& plan, bool only_trainable) {
  std::int64_t sum = 0;
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) sum += bucket.trainable || !only_trainable ? planned.weight->numel() : 0;
  }
  return sum;
}

}  // namespace capstan::shard
