#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <set>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// What processes use, added up as psrecord does: memory that several share counts for each.
struct ProcessUse {
  std::int64_t resident = 0;     ///< bytes
  std::int64_t addressed = 0;    ///< bytes of address space
  double processor_seconds = 0;  ///< used by the living processes since they began
};

/// What these processes of this host use and all that they started, without those that have ended. `proc`: the
/// system's.
ProcessUse process_tree_use(const std::set<std::int64_t>& roots, const std::filesystem::path& proc = "/proc");

}  // namespace monitor
CAPSTAN_END_NAMESPACE
