#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>

#include <string>
#include <utility>
#include <vector>

#include <capstan/plugin/host.h>

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// A table of the host ("train") and its options.
using HostTable = std::pair<std::string, config::Schema>;

/// The config reference, docs/configuration.md, from the host's schemas and those of the plugins that can be used.
/// It names no file or folder of this machine, so that it is the same wherever it is made.
std::string reference_markdown(const std::vector<HostTable>& tables, const std::vector<plugin::Found>& plugins);

/// An option's default as a person reads it: "required", "not set", or the value.
std::string default_text(const config::OptionSpec& spec);
/// An option's type as a person reads it: "integer", "string, path".
std::string option_type_text(const config::OptionSpec& spec);
/// How a configuration names a plugin: "[strategy.fsdp]", "[model] plugin = \"gpt\"".
std::string table_example(const std::string& kind, const std::string& name);

}  // namespace cli
CAPSTAN_END_NAMESPACE
