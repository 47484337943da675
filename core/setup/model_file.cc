#include "setup/model_file.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace capstan::setup {
namespace {

const nlohmann::json* find(const nlohmann::json& json, const std::string& dotted) {
  const auto* at = &json;
  for (const auto& key : split(dotted, '.')) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

config::Value value_of(const nlohmann::json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return {};
}

bool has(const config::Section& section, const config::OptionSpec& spec) {
  if (section.find(spec.key)) return true;
  for (const auto& name : spec.spellings) {
    if (section.find(name)) return true;
  }
  return false;
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

config::Section with_model_file(const config::Section& section, const ModelFolder& folder,
                                const config::Schema& schema) {
  const auto file = (std::filesystem::path(folder.path) / "config.json").string();
  if (!std::filesystem::exists(file)) {
    throw Error("model.path: there is no file " + file,
                "name a Hugging Face model folder, with config.json and *.safetensors", folder.where);
  }
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(file));
  } catch (const nlohmann::json::exception& error) {
    throw Error(cat("it is no JSON: ", error.what()), "download the model's folder again", file);
  }
  auto result = section;
  for (const auto& spec : schema) {
    if (has(section, spec)) continue;
    std::vector<std::string> names{spec.key};
    names.insert(names.end(), spec.spellings.begin(), spec.spellings.end());
    for (const auto& name : names) {
      const auto* found = find(json, name);
      if (!found) continue;
      auto value = value_of(*found);
      if (!std::holds_alternative<std::monostate>(value)) {
        result.entries.push_back({spec.key, std::move(value), {config::Origin::Layer::model_file, file, 0}});
      }
      break;
    }
  }
  return result;
}

}  // namespace capstan::setup
