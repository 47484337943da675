#include "job/host_memory.h"

#include <capstan/base/text.h>

namespace capstan::job {
std::int64_t host_bytes(const Prediction& prediction, const std::string& device) {
  const auto host = layout::total_bytes(prediction.footprints, "host");
  return device == "cpu" ? host + layout::total_bytes(prediction.footprints, "cpu") : host;
}

std::optional<std::int64_t> told_host_memory(const setup::RunOptions& run) {
  if (run.host_memory <= 0) return {};
  return static_cast<std::int64_t>(run.host_memory * (1LL << 30));
}

void check_host_memory(const setup::Configuration& config, const Topology& topology, const Prediction& prediction,
                       std::optional<std::int64_t> available, Diagnostics& diagnostics) {
  // `check` on a machine without a GPU judges "auto" for one elsewhere: only what is in host memory there too counts.
  const bool elsewhere = config.request.may_move && config.run->device == "auto";
  const auto needed = host_bytes(prediction, elsewhere ? "cuda" : config.device);
  if (needed == 0) return;
  const auto all = needed * topology.ranks_per_node;
  if (!available || all <= *available) return;
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  diagnostics.add({},
                  cat(config.device == "cpu" && !elsewhere                             ? "training on CPUs needs "
                      : topology.policy.offload_optim || topology.policy.offload_param ? "offloading needs "
                                                                                       : "saving needs ",
                      text(needed), " of host memory a rank, ", text(all), " for the ", topology.ranks_per_node,
                      " ranks of a node, and ", text(*available), " are left"),
                  "use more nodes (check learns of them by --nodes), offload less, ask for a node with more memory "
                  "(#SBATCH --mem=0), or set run.host_memory if this is not the node");
}

}  // namespace capstan::job
