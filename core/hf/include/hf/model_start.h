#pragma once
#include <capstan/base/export.h>
#include <capstan/config/value.h>

#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// A Hugging Face folder, and what in the configuration names it.
struct ModelFolder {
  std::string path;
  std::string where;
  bool adapter_is_read = false;  ///< a strategy of the run reads the adapter that may lie in the folder too
};

/// A preset's name, and what in the configuration gives it.
struct ModelPreset {
  std::string name;
  std::string where;
};

/// What a model's options start from, below the configuration.
struct ModelStart {
  std::optional<ModelPreset> preset;
  std::optional<ModelFolder> folder;
};

/// Adds a preset's options as a layer below config.json and the configuration. Throws Error at its `where`, with the
/// nearest name, when the plugin has no such preset.
config::Section with_preset(const config::Section& section, const ModelPreset& preset, const config::Presets& presets,
                            const std::string& plugin);

/// The preset that a hub id or a folder means by its name, whatever stands around it: "bigscience/bloom-560m" is
/// bloom-560m, "meta-llama/Meta-Llama-3.1-8B-Instruct" llama3.1-8b. The longest that fits; "" where none does.
std::string preset_of_id(const std::string& id, const config::Presets& presets);

/// Refuses a folder that has a PEFT adapter and no model, or both where no strategy reads the adapter: transformers
/// would load it. Throws Error at `where`, or at the folder where that is empty.
void refuse_adapter(const ModelFolder& folder);

}  // namespace hf
CAPSTAN_END_NAMESPACE
