#include "commands/prepare_together.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "commands/refused.h"
#include "launch/error_report.h"
#include "plan/gpu_fit.h"
#include "plugin/hints.h"

namespace capstan::commands {
namespace {

// What the GPU with the least memory has for tensors: all ranks learn the same. 0 on CPUs.
std::int64_t smallest_gpu_room(const ranks::Rank& rank) {
  if (rank.device.name != "cuda") return 0;
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& bytes : rank.communicator->exchange(std::to_string(rank.device.gpu.bytes)))
    least = std::min<std::int64_t>(least, std::stoll(bytes));
  return std::max<std::int64_t>(0, least - plan::Gpu::reserve);
}

}  // namespace

session::Job prepare_together(const launch::RunArguments& arguments, const launch::Environment& env,
                              const ranks::Rank& rank, plugin::Host& host) {
  auto& communicator = *rank.communicator;
  const auto& world = communicator.world();
  std::optional<session::Job> job;
  std::string faults;
  const auto gpu_room = smallest_gpu_room(rank);
  try {
    Diagnostics diagnostics;
    setup::JobRequest request;
    request.gpu_room = gpu_room;
    request.file = arguments.config;
    request.overrides = arguments.overrides;
    request.world_size = world.size;
    request.rank = world.rank;
    request.hub = config::hub_cache(env);
    request.device = rank.device.name;
    request.gpu = rank.device.gpu.device;
    request.gpu_capability = rank.device.gpu.capability;
    request.activations = arguments.purpose == setup::Purpose::train;
    request.cache = rank.cache;
    request.ranks_per_node = world.local_size;
    request.purpose = arguments.purpose;
    request.weights = arguments.weights;
    job = session::prepare(request, host, diagnostics);
    diagnostics.throw_if_any();
  } catch (const Error& error) {
    faults = launch::error_text(plugin::with_hints(error, host));
  }
  const auto all = communicator.exchange(faults);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) continue;
    const bool everywhere = std::count(all.begin(), all.end(), all[i]) == world.size;
    throw ConfigurationRefused(everywhere ? all[i] : all[i] + cat("    on rank ", i, " of ", world.size, "\n"));
  }
  return std::move(*job);
}

}  // namespace capstan::commands
