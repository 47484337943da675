#include "cli/own_commands.h"

#include <capstan/base/error.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "launch/arguments.h"
#include "plugin/engine.h"
#include "setup/configuration.h"

namespace capstan::cli {
namespace {

// The configuration file, options that win over it, and -n.
template <class Arguments>
void add_config_arguments(CLI::App& command, Arguments& given, const std::string& ranks_help) {
  command.add_option("config", given.config, "configuration file (TOML)")->required();
  command.add_option("overrides", given.overrides,
                     "options that win over the file: train.max_steps=250 strategy.PLUGIN.OPTION=VALUE; "
                     "train.accumulation= unsets what the file says");
  command.add_option("-n,--ranks", given.ranks, ranks_help)->check(CLI::Range(1, 1000000));
}

// The host's own faults of the configuration.
std::vector<Diagnostic> host_faults(const launch::CheckArguments& given, const launch::Environment& env) {
  setup::JobRequest request;
  request.file = given.config;
  request.overrides = given.overrides;
  request.may_move = true;
  if (!given.gpu.empty()) request.device = "cuda";
  const auto host = plugin_host(env);
  Diagnostics faults;
  try {
    setup::read_configuration(request, faults, &host);
    return faults.list();
  } catch (const Error& unreadable) {
    return unreadable.diagnostics();
  }
}

// Where the engine cannot be opened, what is wrong with the configuration is said as well.
const plugin::Engine& engine_for(const launch::CheckArguments& given, const launch::Environment& env) {
  try {
    return plugin::open_engine();
  } catch (const Error& error) {
    auto faults = host_faults(given, env);
    faults.insert(faults.end(), error.diagnostics().begin(), error.diagnostics().end());
    throw Error(std::move(faults));
  }
}

}  // namespace

void add_run_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "run",
      "train; under srun, torchrun or mpirun as one of their ranks, otherwise as a single rank or with -n local ranks");
  const auto given = std::make_shared<launch::RunArguments>();
  add_config_arguments(*command, *given, "start this many local ranks");
  command->add_flag("--spawn-local", given->spawn_local,
                    "under srun with one task a node: start the node's ranks, one a GPU, or -n of them");
  choose_with(*command, chosen, [given](const Process& process) {
    given->command_line.assign(process.argv, process.argv + process.argc);
    return plugin::open_engine().run(*given, process.env);
  });
}

void add_check_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "check",
      "read and judge a configuration, print every option and where it comes from; trains nothing, touches no GPU");
  const auto given = std::make_shared<launch::CheckArguments>();
  add_config_arguments(*command, *given, "number of ranks that the run will have (default 1)");
  command
      ->add_option("--nodes", given->nodes, "number of nodes that these ranks will be on, as many on each (default 1)")
      ->check(CLI::Range(1, 1000000));
  command->add_option(
      "--resolved", given->resolved,
      "also write the configuration here as one file with every option, which means the same in any folder");
  command->add_option("--gpu", given->gpu,
                      "say whether each rank fits into this GPU (v100-32g, a100-40g, a100-80g, h100-80g, h200-141g, or "
                      "a size such as 80GiB), and if not what would help; where files of the model or the data are not "
                      "there yet, sizes of known models and data.max_length stand in (not with --resolved)");
  choose_with(*command, chosen,
              [given](const Process& process) { return engine_for(*given, process.env).check(*given, process.env); });
}

}  // namespace capstan::cli
