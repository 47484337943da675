#pragma once
#include <string>
#include <vector>

#include <capstan/plugin/host.h>
#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// Declares the commands that are plugins to the parser, only for its help; what is wrong with a file is said below
/// them. A name that the program itself has stays the program's.
void list_commands(CLI::App& app, const std::vector<plugin::Noted>& commands);

/// The names of the commands that are declared to the parser.
std::vector<std::string> command_names(const CLI::App& app);

/// Runs the command `name`, which is a plugin; returns its exit code.
int call_command(plugin::Host& host, const std::string& name, const std::vector<std::string>& arguments,
                 const launch::Environment& env);

/// For a name that no command has: how to install it if it is one of Capstan's own, else the nearest of `names`.
std::string fix_of_unknown(const std::string& name, const std::vector<std::string>& names);

}  // namespace cli
CAPSTAN_END_NAMESPACE
