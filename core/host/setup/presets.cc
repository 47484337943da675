#include "setup/presets.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <vector>

namespace capstan::setup {

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

std::string plugin_of_preset(const std::string& id, plugin::Host& host) {
  std::string best, plugin;
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    const auto preset = preset_of_id(id, found.registration->presets);
    if (preset.size() <= best.size()) continue;
    best = preset;
    plugin = found.name;
  }
  return plugin;
}

}  // namespace capstan::setup
