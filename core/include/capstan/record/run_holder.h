#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace record {

/// What somebody who only looks sees of a run's folder.
struct HolderSeen {
  enum class State { none, lives, gone };
  State state = State::none;
  std::string name;  ///< "process 4711 on node7"; empty: none
};
/// By the process where it is of this machine, else by its last beat. Changes nothing.
HolderSeen holder_seen(const std::filesystem::path& folder);

}  // namespace record
CAPSTAN_END_NAMESPACE
