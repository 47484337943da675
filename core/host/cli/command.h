#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <functional>

#include "launch/launch.h"

namespace CLI {
class App;
}

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// What a command is told of its process.
struct Process {
  int argc = 0;
  char** argv = nullptr;
  launch::Environment env;
};

/// The command that the command line names, with its arguments. Each add_…_command declares its own to the parser,
/// which sets this when it meets the command's name; it returns the exit code.
using Chosen = std::function<int(const Process&)>;

/// What a command does when it is the chosen one: `run` is called with its arguments, which the parser has filled.
void choose_with(CLI::App& command, Chosen& chosen, Chosen run);

/// The plugins that the environment names: CAPSTAN_PLUGIN_PATH has their folders, and with CAPSTAN_TRUST_PLUGINS=1
/// those that others may write are loaded too.
plugin::Host plugin_host(const launch::Environment& env, bool uses_gpu = false);

}  // namespace cli
CAPSTAN_END_NAMESPACE
