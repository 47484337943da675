#include "hf/model_start.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace capstan::hf {
namespace {

// What an adapter's file says that it belongs to; "" where it does not say.
std::string base_of(const std::filesystem::path& adapter) {
  const auto json = try_parse_json(read_file(adapter));
  const auto found = json.is_object() ? json.find("base_model_name_or_path") : json.end();
  return found != json.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

}  // namespace

config::Section with_preset(const config::Section& section, const ModelPreset& preset, const config::Presets& presets,
                            const std::string& plugin) {
  const auto found = presets.find(preset.name);
  if (found == presets.end()) {
    std::vector<std::string> names;
    for (const auto& [name, values] : presets) names.push_back(name);
    throw Error(cat("model.preset: plugin '", plugin, "' has no preset '", preset.name, "'"),
                names.empty() ? "remove it: this plugin has none" : suggestion(preset.name, names), preset.where);
  }
  auto result = section;
  for (const auto& [key, value] : found->second)
    result.entries.push_back({key, value, {config::Origin::Layer::preset, preset.name, 0}});
  return result;
}

std::string preset_of_id(const std::string& id, const config::Presets& presets) {
  // Word by word, so that bloom-1b1 is not found in bloom-1b15; how words are joined differs ("llama3.1", "Llama-3.1").
  auto name = id.substr(0, id.find('@'));
  while (name.ends_with('/')) name.pop_back();
  name = name.substr(name.rfind('/') + 1);
  name = lower(name);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto words = split(name, '-');
  std::string best;
  for (const auto& [preset, values] : presets) {
    const auto wanted = join(split(preset, '-'), "");
    for (std::size_t first = 0; first < words.size(); ++first) {
      std::string joined;
      for (std::size_t i = first; i < words.size() && joined.size() < wanted.size(); ++i) joined += words[i];
      if (joined == wanted && preset.size() > best.size()) best = preset;
    }
  }
  return best;
}

void refuse_adapter(const ModelFolder& folder) {
  const std::filesystem::path path(folder.path);
  const auto adapter = path / "adapter_config.json";
  if (!is_there(adapter)) return;
  const auto where = folder.where.empty() ? folder.path : folder.where;
  if (!is_there(path / "config.json")) {
    const auto base = base_of(adapter);
    throw Error(cat(folder.path, " is the folder of a PEFT adapter, not of a model"),
                cat("name its base with model.path", base.empty() ? "" : cat(" (it says \"", base, "\")"),
                    ", and the adapter with strategy.lora.adapter = \"", folder.path, "\""),
                where);
  }
  if (folder.adapter_is_read) return;
  throw Error(cat(folder.path, " has a PEFT adapter next to the model, which transformers would load too"),
              cat("set strategy.lora.adapter = \"", folder.path,
                  "\" to train it further, or take adapter_config.json out of the folder"),
              where);
}

}  // namespace capstan::hf
