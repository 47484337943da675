#pragma once
#include <optional>

#include "assembly/predict.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Host memory that this rank will allocate: all that it trains with on a CPU; beside a GPU what is offloaded, and the
/// copy of a checkpoint.
std::int64_t host_bytes(const Prediction& prediction, const std::string& device);
/// What run.host_memory says that the ranks of a node may use, where it is set.
std::optional<std::int64_t> told_host_memory(const setup::RunOptions& run);

/// Host memory that ranks of one node allocate together, against what is there (nothing: nobody knows): said before
/// anything is allocated.
void check_host_memory(const setup::Configuration& config, const Topology& topology, const Prediction& prediction,
                       std::optional<std::int64_t> available, Diagnostics& diagnostics);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
