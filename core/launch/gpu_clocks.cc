#include <capstan/base/text.h>
#include <capstan/monitor/nvml.h>

#include "launch/gpus.h"

namespace capstan::launch {

std::string gpu_clocks(const std::string& uuid) {
  const monitor::Nvml nvml;
  const auto* gpu = nvml.find(uuid);
  if (gpu == nullptr) return {};
  const auto now = nvml.clocks(*gpu);
  const auto state = cat(now.mhz, " of ", now.most, " MHz, ", now.celsius, " °C");
  return now.slowed_by.empty() ? state : cat("throttled: ", join(now.slowed_by), ", ", state);
}

}  // namespace capstan::launch
