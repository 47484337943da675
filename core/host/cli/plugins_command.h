#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include <capstan/plugin/host.h>
#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// What `capstan plugins` prints: a table of the plugins (kind, name, version, summary, file), then each file that
/// cannot be used with its reason.
std::string plugins_text(const std::vector<plugin::Found>& found);

/// What `capstan plugins NAME` prints: each plugin of that name with its options (type, default, limits, doc).
/// Throws Error with the nearest name when there is none, and with the reason when its file cannot be used.
std::string plugin_text(const std::vector<plugin::Found>& found, const std::string& name);

/// Declares `capstan plugins`.
void add_plugins_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
