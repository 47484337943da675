#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/layout/file_tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// A Hugging Face folder, and what in the configuration names it.
struct ModelFolder {
  std::string path;
  std::string where;
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

/// Adds what a Hugging Face folder's config.json says of the model's options, under the option's own name or one
/// of its spellings, as a layer below the configuration: keys that `section` has already stay. Nested tables are
/// dotted keys. Keys that no option knows are left out (a config.json says much that is not the model's).
/// Throws Error: at `where` when the file is missing, at the file when it is no JSON.
config::Section with_model_file(const config::Section& section, const ModelFolder& folder,
                                const config::Schema& schema);

/// Ids that a config.json names; -1 and no ends: it says null.
struct TokenIds {
  std::int64_t begin = -1;
  std::vector<std::int64_t> ends;
  std::int64_t pad = -1;
};

/// What a config.json is written from.
struct ConfigJson {
  const std::vector<config::Resolved>& options;  ///< the model's; the same table reads and writes such files
  const layout::FileMap& map;
  std::string original;  ///< text of the config.json that the model came from, which keeps all else it says; or empty
  TokenIds ids;          ///< where there is no original
  std::string dtype;     ///< "bfloat16"
  /// JSON: "quantization_config", which tells of packed weights; empty: none are.
  std::string quantization = {};
};

/// The text of a config.json from which with_model_file reads the same options. Each stands under the name that the
/// original has for it, else under its first spelling (not in rope_parameters), else under its own key. Throws Error
/// where the model has no such file.
std::string config_json(const ConfigJson& from);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
