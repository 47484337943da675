#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// The Hugging Face hub's cache on this machine: models--<organisation>--<name>/{refs,snapshots}.
struct HubCache {
  std::filesystem::path folder;  ///< empty: there is none
  std::string variable = {};     ///< what put it there, for a command to repeat: "HF_HOME=/scratch/hf"; empty: default
};

/// What names a model or a tokenizer: as it was written, and as a path.
struct ModelName {
  std::string written;   ///< "bigscience/bloom-560m", "../models/bloom"
  std::string absolute;  ///< the same as a path, from the folder of the file that says it
  std::string where;
  std::string option = {};  ///< "model.path"; empty: a command's argument, where a run's folder may stand too
};

/// The folder that is meant: the path, where there is one; else the cache's newest snapshot of the hub id
/// ORGANISATION/NAME (ORGANISATION/NAME@REVISION: of that branch, tag or commit). Throws Error, at its `where`, that
/// says what was looked for and where; for an id, with the command that downloads it.
std::filesystem::path find_model(const ModelName& name, const HubCache& hub);

/// The folder of the hub's model whose tokenizer is meant; nothing where the name is a path that is there, or is no
/// hub id. Throws as find_model does.
std::optional<std::filesystem::path> find_tokenizer(const ModelName& name, const HubCache& hub);

}  // namespace setup
CAPSTAN_END_NAMESPACE
