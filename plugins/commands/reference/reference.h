#pragma once
#include <capstan/config/options.h>
#include <capstan/plugin/host.h>

#include <string>
#include <utility>
#include <vector>

namespace reference {

/// A table of the host ("train") and its options.
using HostTable = std::pair<std::string, capstan::config::Schema>;

/// The config reference, docs/configuration.md, from the host's schemas and those of the plugins that can be used.
/// It names no file or folder of this machine, so that it is the same wherever it is made.
std::string markdown(const std::vector<HostTable>& tables, const std::vector<capstan::plugin::Found>& plugins);

}  // namespace reference
