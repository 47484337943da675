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

/// What becomes of each key of other programs' files, docs/other-files.md, from the tables of the plugins that can be
/// used.
std::string files_markdown(const std::vector<capstan::plugin::Found>& plugins);

// What both are made of.

/// A cell of a Markdown table: no line ends, no bars.
std::string cell(const std::string& text);
std::string code(const std::string& text);
/// The plugins of a kind, or all, by name.
std::vector<const capstan::plugin::Registration*> of_kind(const std::vector<capstan::plugin::Found>& plugins,
                                                          const std::string& kind);

}  // namespace reference
