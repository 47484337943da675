#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "assembly/predict.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Bytes of host memory that this process may still allocate: the machine's MemAvailable, or what is left in its
/// control group (v2 or v1; SLURM and containers set them), whichever is less; the page cache counts as free in both. 0
/// at or over a limit, nothing when neither is known. `root` is the folder that contains proc and sys.
std::optional<std::int64_t> available_host_memory(const std::filesystem::path& root = "/");

/// Host memory that this rank will allocate: on a CPU all that it trains with; with a GPU what is offloaded, and the
/// copy of a checkpoint.
std::int64_t host_bytes(const assembly::Prediction& prediction, const std::string& device);
/// What run.host_memory says that the ranks of a node may use, where it is set.
std::optional<std::int64_t> told_host_memory(const setup::RunOptions& run);

/// Checks the host memory that the ranks of one node allocate together against what is available (nothing: it is
/// unknown), before anything is allocated.
void check_host_memory(const setup::Configuration& config, const assembly::Topology& topology,
                       const assembly::Prediction& prediction, std::optional<std::int64_t> available,
                       Diagnostics& diagnostics);

}  // namespace session
CAPSTAN_END_NAMESPACE
