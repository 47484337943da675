#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace record {

/// Whether a process holds a run's folder, as seen by a process that only looks.
struct HolderSeen {
  enum class State { none, lives, gone };
  State state = State::none;
  std::string name;  ///< "process 4711 on node7"; empty: none
};
/// Looks at the holding process where it is on this machine, else at its last beat. Changes nothing.
HolderSeen holder_seen(const std::filesystem::path& folder);

}  // namespace record
CAPSTAN_END_NAMESPACE
