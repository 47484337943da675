#include "shard/footprint.h"

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
  for (std::size_t r = plan.runs.size(); r-- > 0 && plan.runs[r].trainable;) {
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
      {"parameters", sums.on_device(Part::parameters), device, "always"},
      {"gradients", sums.on_device(Part::gradients), device, "always"},
      {"optimizer state", sums.on_device(Part::optimizer_state), device, "always"},
      {"collective buffers", sums.on_device(Part::collective_buffers), device, "always"}};
  const auto add = [&](const char* part, std::int64_t bytes, const std::string& where, const char* when) {
    if (bytes > 0) list.push_back({part, bytes, where, when});
  };
  add("gradients on their way", sums.on_device(Part::gradients_on_their_way), device, "always");
  list.push_back({"gathered units", most_acquired(plan, options), device, "forward"});
  add("kept after forward", sum_of(plan, Lifetime::regather), device, "forward");
  add("offloaded parameters", sums.on_host(Part::parameters), "host", "always");
  add("offloaded gradients", sums.on_host(Part::gradients), "host", "always");
  add("offloaded optimizer state", sums.on_host(Part::optimizer_state), "host", "always");
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
