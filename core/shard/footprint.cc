#include "shard/footprint.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <string>

#include "shard/counting_executor.h"
#include "shard/gather_protocol.h"

namespace capstan::shard {
namespace {

// A prediction's name for a group of buffers.
enum class Part { parameters, gradients, optimizer_state, collective_buffers, gradients_on_their_way };

Part part_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::full_parameters:
    case Purpose::master:
    case Purpose::packed:
    case Purpose::packed_gathered:
    case Purpose::send_on_host:
    case Purpose::send_on_device:
    case Purpose::send_temporary:
    case Purpose::regather:
      return Part::parameters;
    case Purpose::gradient_full:
    case Purpose::gradient_shard:
    case Purpose::gradient_autograd:
    case Purpose::gradient_on_host:
      return Part::gradients;
    case Purpose::optimizer_state:
      return Part::optimizer_state;
    case Purpose::gather_staging:
    case Purpose::reduce_staging:
    case Purpose::sum_staging:
    case Purpose::partial_staging:
      return Part::collective_buffers;
    case Purpose::offload_staging:
    case Purpose::return_staging:
      break;
  }
  return Part::gradients_on_their_way;
}

std::string part_name(Part part, bool on_host) {
  const char* const offloaded = on_host ? "offloaded " : "";
  switch (part) {
    case Part::parameters:
      return cat(offloaded, "parameters");
    case Part::gradients:
      return cat(offloaded, "gradients");
    case Part::optimizer_state:
      return cat(offloaded, "optimizer state");
    case Part::collective_buffers:
      return "collective buffers";
    case Part::gradients_on_their_way:
      break;
  }
  return "gradients on their way";
}

// Permanent bytes, by part.
struct Sums {
  std::array<std::int64_t, 5> device{};
  std::array<std::int64_t, 5> host{};

  void add(const Buffers& buffers, std::size_t states) {
    for (const auto& buffer : buffers) {
      if (buffer.lifetime != Lifetime::always) continue;
      const auto times = buffer.purpose == Purpose::optimizer_state ? static_cast<std::int64_t>(states) : 1;
      auto& sums = buffer.is_on_host() ? host : device;
      sums[static_cast<std::size_t>(part_of(buffer.purpose))] += times * buffer.bytes();
    }
  }
  std::int64_t on_device(Part part) const { return device[static_cast<std::size_t>(part)]; }
  std::int64_t on_host(Part part) const { return host[static_cast<std::size_t>(part)]; }
};

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

std::vector<layout::Footprint> footprint(const ShardPlan& plan, const EngineOptions& options, std::size_t states) {
  Sums sums;
  for (const auto& bucket : plan.buckets) sums.add(bucket.buffers, states);
  sums.add(plan.staging, states);
  const std::string device = c10::DeviceTypeName(options.precision.device.type(), true);
  std::vector<layout::Footprint> list{
      {part_name(Part::parameters, false), sums.on_device(Part::parameters), device, "always"},
      {part_name(Part::gradients, false), sums.on_device(Part::gradients), device, "always"},
      {part_name(Part::optimizer_state, false), sums.on_device(Part::optimizer_state), device, "always"},
      {part_name(Part::collective_buffers, false), sums.on_device(Part::collective_buffers), device, "always"}};
  const auto add = [&](const std::string& part, std::int64_t bytes, const std::string& where, const char* when) {
    if (bytes > 0) list.push_back({part, bytes, where, when});
  };
  add(part_name(Part::gradients_on_their_way, false), sums.on_device(Part::gradients_on_their_way), device, "always");
  list.push_back({"gathered units", most_acquired(plan, options), device, "forward"});
  add("kept after forward", sum_of(plan, Lifetime::regather), device, "forward");
  add(part_name(Part::parameters, true), sums.on_host(Part::parameters), "host", "always");
  add(part_name(Part::gradients, true), sums.on_host(Part::gradients), "host", "always");
  add(part_name(Part::optimizer_state, true), sums.on_host(Part::optimizer_state), "host", "always");
  return list;
}

void HeldMemory::add(Purpose purpose, const at::Tensor& tensor, bool on_host) {
  if (!tensor.defined() || !counted_.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
  auto name = part_name(part_of(purpose), on_host);
  if (purpose == Purpose::full_parameters && gathered_) name = "gathered units";
  if (purpose == Purpose::regather) name = "kept after forward";
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  for (auto& part : parts_) {
    if (part.part != name) continue;
    part.bytes += bytes;
    return;
  }
  parts_.push_back({name, bytes, on_host ? "host" : "", "now"});
}

std::vector<layout::Footprint> HeldMemory::list(const std::string& device) const {
  auto list = parts_;
  for (auto& part : list) {
    if (part.device.empty()) part.device = device;
  }
  return list;
}

std::int64_t trainable_parameters(const ShardPlan& plan) {
  std::int64_t sum = 0;
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) sum += bucket.trainable ? planned.weight->numel() : 0;
  }
  return sum;
}

}  // namespace capstan::shard
