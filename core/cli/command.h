#pragma once
#include <capstan/base/export.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/arguments.h"
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

/// The configuration file, options that win over it, and -n.
struct ConfigArguments {
  std::string& config;
  std::vector<std::string>& overrides;
  int* ranks = nullptr;  ///< null: without -n
};
void add_config_arguments(CLI::App& command, const ConfigArguments& arguments, const std::string& ranks_help = {});

/// Declares the arguments of a command that ranks run together, and what it does with them.
void add_ranks_arguments(CLI::App& command, Chosen& chosen,
                         std::function<int(const launch::RunArguments&, const launch::Environment&)> run);

/// What a command does when it is the chosen one: `run` is called with its arguments, which the parser has filled.
void choose_with(CLI::App& command, Chosen& chosen, Chosen run);

}  // namespace cli
CAPSTAN_END_NAMESPACE
