#include "config/plugin_table.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>

#include "config/document.h"
#include "config/paths.h"

namespace capstan::config {
namespace {

struct KeyedOptions {
  bool enabled = true;
  std::string path;
  static void describe(OptionTable<KeyedOptions>& t) {
    t.add("enabled", &KeyedOptions::enabled).doc("false: as if the table were not there");
    t.add("path", &KeyedOptions::path).path().doc("the plugin's .so, when it lies elsewhere");
  }
};

struct ChosenOptions {
  std::string plugin;
  static void describe(OptionTable<ChosenOptions>& t) {
    t.add("plugin", &ChosenOptions::plugin).required().doc("name of the plugin, or its .so when that lies elsewhere");
  }
};

bool is_keyed(const std::string& kind) {
  const auto& groups = group_names();
  return std::find(groups.begin(), groups.end(), kind) != groups.end();
}

}  // namespace

Section take(Section& from, const Schema& schema) {
  Section out{from.path, from.origin, {}};
  std::erase_if(from.entries, [&](const Entry& entry) {
    const bool is_ours =
        std::any_of(schema.begin(), schema.end(), [&](const OptionSpec& spec) { return spec.key == entry.key; });
    if (is_ours) out.entries.push_back(entry);
    return is_ours;
  });
  return out;
}

PluginTable keyed_plugin(const Section& section, Diagnostics& diagnostics) {
  PluginTable out;
  out.name = section.path.substr(section.path.find('.') + 1);
  out.section = section;
  const Options<KeyedOptions> options(take(out.section, Options<KeyedOptions>::schema()), diagnostics);
  out.enabled = options->enabled;
  out.path = options->path;
  out.where = options.is_set(&KeyedOptions::path) ? options.where(&KeyedOptions::path) : section.origin.text();
  for (const auto& option : options.resolved()) {
    if (option.origin.layer != Origin::Layer::default_value)
      out.host.push_back({option.spec.key, option.value, option.origin});
  }
  return out;
}

PluginTable chosen_plugin(const Section& section, Diagnostics& diagnostics) {
  PluginTable out;
  out.section = section;
  const Options<ChosenOptions> options(take(out.section, Options<ChosenOptions>::schema()), diagnostics);
  const auto& choice = options.resolved().front();
  out.name = options->plugin;
  out.where = options.is_set(&ChosenOptions::plugin) ? choice.origin.text() : section.origin.text();
  if (out.name.empty()) {
    if (options.is_set(&ChosenOptions::plugin))
      diagnostics.add(out.where, cat(section.path, ".plugin is empty"), "write the plugin's name");
    return out;
  }
  if (const std::filesystem::path file(out.name); file.extension() == ".so") {
    out.path = absolute_path(out.name, choice.origin);
    out.name = file.stem().string();
  }
  out.host.push_back({"plugin", out.path.empty() ? out.name : out.path, choice.origin});
  return out;
}

const Schema& host_options(const std::string& kind) {
  static const Schema none;
  if (kind == "command") return none;
  return is_keyed(kind) ? Options<KeyedOptions>::schema() : Options<ChosenOptions>::schema();
}

std::string table_example(const std::string& kind, const std::string& name) {
  if (kind == "command") return cat("[", name, "]");
  return is_keyed(kind) ? cat("[", kind, ".", name, "]") : cat("[", kind, "] plugin = \"", name, "\"");
}

}  // namespace capstan::config
