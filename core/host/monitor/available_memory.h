#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// Bytes of host memory that this process may still allocate: the machine's MemAvailable, or what is left in its
/// control group (v2 or v1; SLURM and containers set them), whichever is less; the page cache counts as free in both. 0
/// at or over a limit, nothing when neither is known. `root` is the folder that contains proc and sys.
std::optional<std::int64_t> available_host_memory(const std::filesystem::path& root = "/");

}  // namespace monitor
CAPSTAN_END_NAMESPACE
