#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// The Hugging Face hub's cache on this machine: models--<organisation>--<name>/{refs,snapshots}.
struct HubCache {
  std::filesystem::path folder;  ///< empty: there is none
  std::string variable = {};     ///< what put it there, for a command to repeat: "HF_HOME=/scratch/hf"; empty: default
};

/// What in a configuration names a model: as it was written, and as a path.
struct ModelName {
  std::string written;   ///< "bigscience/bloom-560m", "../models/bloom"
  std::string absolute;  ///< the same as a path, from the folder of the file that says it
  std::string where;
};

/// The folder that is meant: the path, where there is one; else the cache's newest snapshot of the hub id
/// ORGANISATION/NAME (ORGANISATION/NAME@REVISION: of that branch, tag or commit). Throws Error, at its `where`, that
/// says what was looked for and where; for an id, with the command that downloads it.
std::filesystem::path find_model(const ModelName& name, const HubCache& hub);

}  // namespace setup
CAPSTAN_END_NAMESPACE
