#include "job/model_table.h"

#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <filesystem>

#include "hf/door.h"
#include "setup/collect.h"

namespace capstan::job {
namespace {

namespace fs = std::filesystem;

// The folder that model.path means: a path, or what the hub's cache has under an id.
std::optional<hf::ModelFolder> find_folder(config::Options<setup::ModelOptions>& options, const config::HubCache& hub,
                                           Diagnostics& faults) {
  if (!options->path) return {};
  const auto where = options.where(&setup::ModelOptions::path);
  std::optional<hf::ModelFolder> found;
  setup::collect(faults, [&] {
    const auto folder = config::find_model({written_path(options), *options->path, where, "model.path"}, hub).string();
    options.derive(&setup::ModelOptions::path, folder);
    found = hf::ModelFolder{folder, where};
  });
  return found;
}

// A folder and a preset both say what the model is, and would mix: if both are given, the command line's counts.
void settle_start(config::Section& section, Diagnostics& faults) {
  const auto* path = section.find("path");
  const auto* preset = section.find("preset");
  if (!path || !preset) return;
  if (path->origin.layer == preset->origin.layer) {
    faults.add(preset->origin.text(),
               cat("model.preset and model.path (", path->origin.text(), ") both say what the model is"),
               "keep one: path for a folder's weights, preset for its sizes with random ones");
    return;
  }
  const std::string weaker = path->origin.layer < preset->origin.layer ? "path" : "preset";
  std::erase_if(section.entries, [&](const auto& entry) { return entry.key == weaker; });
}

// A path that a strategy has in its table may be that of the model's folder: it then reads an adapter there.
bool is_read_by(const Strategies& strategies, const std::string& folder) {
  for (const auto& strategy : strategies) {
    for (const auto& option : strategy.options) {
      const auto* path = option.spec.is_path ? std::get_if<std::string>(&option.value) : nullptr;
      if (path && fs::path(*path + "/").lexically_normal() == fs::path(folder + "/").lexically_normal()) return true;
    }
  }
  return false;
}

// The plugin of the model's folder, or of an id whose files are not there; "" where none is known.
config::Entry inferred_plugin(const std::optional<hf::ModelFolder>& folder, const std::string& named,
                              plugin::Host& host) {
  const auto file = folder ? (fs::path(folder->path) / "config.json").string() : named;
  return {"plugin",
          folder ? hf::door().plugin_of_folder(folder->path, host) : setup::plugin_of_preset(named, host),
          {config::Origin::Layer::model_file, file, 0}};
}

}  // namespace

std::string written_path(const config::Options<setup::ModelOptions>& options) {
  const auto* entry = options.section().find("path");
  const auto* written = entry ? std::get_if<std::string>(&entry->value) : nullptr;
  return written ? *written : *options->path;
}

ModelTable read_model_table(const setup::Configuration& config, Plugins& plugins, plugin::Host& host,
                            Diagnostics& faults) {
  ModelTable read;
  auto section = config.document.section("model");
  settle_start(section, faults);
  auto& options = plugins.model_options = config::Options<setup::ModelOptions>(
      config::take(section, config::Options<setup::ModelOptions>::schema()), faults);
  auto& folder = read.start.folder = find_folder(options, config.request.hub, read.absent);
  if (folder) folder->adapter_is_read = is_read_by(plugins.strategies, folder->path);
  const auto before = faults.size();
  if (options->path && !section.find("plugin")) {
    setup::collect(faults, [&] {
      auto plugin = inferred_plugin(folder, written_path(options), host);
      if (!std::get<std::string>(plugin.value).empty()) section.entries.push_back(std::move(plugin));
    });
    if (faults.size() != before || !section.find("plugin")) return read;
  }
  read.plugin = config::chosen_plugin(section, faults);
  return read;
}

config::Options<setup::ModelOptions> with_stand_in(config::Section section, const StandIn& stand_in) {
  for (auto& entry : section.entries) {
    if (entry.key != "path") continue;
    entry.key = "preset";
    entry.value = stand_in.preset;
  }
  Diagnostics none;
  return config::Options<setup::ModelOptions>(std::move(section), none);
}

}  // namespace capstan::job
