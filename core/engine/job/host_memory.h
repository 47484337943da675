#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

#include "job/predict.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Host memory that this rank will allocate: on a CPU all that it trains with; with a GPU what is offloaded, and the
/// copy of a checkpoint.
std::int64_t host_bytes(const Prediction& prediction, const std::string& device);
/// What run.host_memory says that the ranks of a node may use, where it is set.
std::optional<std::int64_t> told_host_memory(const setup::RunOptions& run);

/// Checks the host memory that the ranks of one node allocate together against what is available (nothing: it is
/// unknown), before anything is allocated.
void check_host_memory(const setup::Configuration& config, const Topology& topology, const Prediction& prediction,
                       std::optional<std::int64_t> available, Diagnostics& diagnostics);

}  // namespace job
CAPSTAN_END_NAMESPACE
