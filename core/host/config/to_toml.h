#pragma once
#include <capstan/config/options.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// A table of the resolved configuration.
struct ResolvedTable {
  std::string path;               ///< "train", "strategy.fsdp"
  std::vector<Entry> host;        ///< PluginTable::host; empty for tables without a plugin
  std::vector<Resolved> options;  ///< in the order of the schema; those that are not set are left out
};

/// A configuration that loads back to the same values from any folder: paths are absolute. A comment after each
/// value that is not a default says where it came from.
std::string to_toml(const std::vector<ResolvedTable>& tables);

}  // namespace config
CAPSTAN_END_NAMESPACE
