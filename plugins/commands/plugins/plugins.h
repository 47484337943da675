#pragma once
#include <capstan/plugin/host.h>

#include <string>
#include <vector>

namespace plugins {

/// What `capstan plugins` prints: a table of the plugins (kind, name, version, summary, file), then each file that
/// cannot be used with its reason.
std::string list_text(const std::vector<capstan::plugin::Found>& found);

/// What `capstan plugins WORD` prints. A kind ("strategy", "strategies"): the list of its plugins. A name: each plugin
/// of that name with its options (type, default, limits, meaning). Throws Error with the nearest name where it is
/// neither, and with the reason where the plugin's file cannot be used.
std::string text_of(const std::vector<capstan::plugin::Found>& found, const std::string& word);

}  // namespace plugins
