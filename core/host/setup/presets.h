#pragma once
#include <capstan/base/export.h>
#include <capstan/config/value.h>
#include <capstan/plugin/host.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// A preset's name, and what in the configuration gives it.
struct ModelPreset {
  std::string name;   ///< as the plugin's table has it
  std::string where;  ///< file and line, for messages
};

/// Adds a preset's options as a layer below config.json and the configuration. Throws Error at its `where`, with the
/// nearest name, when the plugin has no such preset.
config::Section with_preset(const config::Section& section, const ModelPreset& preset, const config::Presets& presets,
                            const std::string& plugin);

/// The preset that a hub id or a folder means by its name, whatever stands around it: "bigscience/bloom-560m" is
/// bloom-560m, "meta-llama/Meta-Llama-3.1-8B-Instruct" llama3.1-8b. The longest that fits; "" where none does.
std::string preset_of_id(const std::string& id, const config::Presets& presets);

/// The model plugin with the preset that this id means (preset_of_id), the longest that fits; "" where none does.
std::string plugin_of_preset(const std::string& id, plugin::Host& host);

}  // namespace setup
CAPSTAN_END_NAMESPACE
