#pragma once
#include <capstan/base/export.h>
#include <capstan/command/arguments.h>
#include <capstan/plugin/host.h>

#include <string>
#include <vector>

#include "launch/arguments.h"
#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// The plugins that the environment names: CAPSTAN_PLUGIN_PATH has their folders, and with CAPSTAN_TRUST_PLUGINS=1
/// those that others may write are loaded too.
plugin::Host plugin_host(const launch::Environment& env, bool uses_gpu = false);

/// What `capstan run` and `capstan check` are told, which the engine does.
struct OwnCommands {
  launch::RunArguments run;
  launch::CheckArguments check;
};

/// Declares both, and does the one of this name; returns its exit code.
void declare_own(command::Arguments& program, OwnCommands& given);
int call_own(const std::string& name, const OwnCommands& given, const launch::Environment& env);

/// Declares the commands that are plugins, only for the help; what is wrong with a file is said below them. A name that
/// the program itself has stays the program's.
void list_commands(command::Arguments& program, const std::vector<plugin::Noted>& commands);

/// Runs the command `name`, which is a plugin; returns its exit code.
int call_command(plugin::Host& host, const std::string& name, const std::vector<std::string>& arguments,
                 const launch::Environment& env);

/// For a name that no command has: how to install it if it is one of Capstan's own, else the nearest of `names`.
std::string fix_of_unknown(const std::string& name, const std::vector<std::string>& names);

}  // namespace cli
CAPSTAN_END_NAMESPACE
