#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// The Hugging Face hub's cache on this machine: models--<organisation>--<name>/{refs,snapshots}.
struct HubCache {
  std::filesystem::path folder;  ///< empty: there is none
  std::string variable = {};     ///< what put it there, for a command to repeat: "HF_HOME=/scratch/hf"; empty: default
};

/// Where the hub's programs keep models: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
/// ~/.cache/huggingface/hub, as huggingface_hub looks for it.
HubCache hub_cache(const std::function<std::optional<std::string>(const std::string&)>& environment);

/// What names a model or a tokenizer: as it was written, and as a path.
struct ModelName {
  std::string written;   ///< "bigscience/bloom-560m", "../models/bloom"
  std::string absolute;  ///< the same as a path, from the folder of the file that says it
  std::string where;
  std::string option = {};  ///< "model.path"; empty: a command's argument, where a run's folder may stand too
};

/// The folder that is meant: the path, where there is one; else the cache's newest snapshot of the hub id
/// ORGANISATION/NAME (with @REVISION, the snapshot of that branch, tag or commit). Throws Error, at its `where`, that
/// says what was looked for and where; for an id, with the command that downloads it.
std::filesystem::path find_model(const ModelName& name, const HubCache& hub);

/// The folder of the hub's model whose tokenizer is meant; nothing where the name is a path that is there, or is no
/// hub id. `files`: the folder must have one of these. Throws as find_model does.
std::optional<std::filesystem::path> find_tokenizer(const ModelName& name, const HubCache& hub,
                                                    const std::vector<std::string>& files);

}  // namespace config
CAPSTAN_END_NAMESPACE
