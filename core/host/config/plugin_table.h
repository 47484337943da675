#pragma once
#include <capstan/base/error.h>
#include <capstan/config/options.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// The host's own options in the table of a plugin, and the rest, which are the plugin's.
struct PluginTable {
  std::string name;         ///< the plugin's, "fsdp"; empty when the table names none
  std::string path;         ///< its file, absolute; empty = the host searches for it
  bool enabled = true;      ///< false: as if there were no such table
  std::string where;        ///< where the plugin is named, for a diagnostic
  Section section;          ///< without the host's own options
  std::vector<Entry> host;  ///< the host's own options with their values, for to_toml()
};

/// Splits [strategy.<name>] or [monitor.<name>]: `enabled` and `path` are the host's.
PluginTable keyed_plugin(const Section& section, Diagnostics& diagnostics);
/// Moves the entries that `schema` knows out of a section.
Section take(Section& from, const Schema& schema);

/// Splits [model], [data], [tokenizer], [optimizer] or one of its groups: `plugin` is the host's, a name or a file
/// ("build/mine.so"). Required.
PluginTable chosen_plugin(const Section& section, Diagnostics& diagnostics);

/// Removes the options of a plugin's table that its schema does not know and reports each with the nearest name, of
/// the schema or of `more` (the host's own, which are removed already).
void refuse_unknown(Section& section, const Schema& schema, const std::vector<std::string>& more,
                    Diagnostics& diagnostics);

}  // namespace config
CAPSTAN_END_NAMESPACE
