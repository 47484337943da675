#include "commands/rank_request.h"

#include <algorithm>
#include <limits>
#include <string>

#include <capstan/config/model_path.h>
#include "plan/gpu_fit.h"

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

setup::JobRequest request_of_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                                  const ranks::Rank& rank) {
  const auto& world = rank.communicator->world();
  setup::JobRequest request;
  request.gpu_room = smallest_gpu_room(rank);
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
  return request;
}

}  // namespace capstan::commands
