#include <capstan/base/error.h>

#include "cli/commands.h"
#include "plugin/engine.h"
#include "setup/configuration.h"

namespace capstan::cli {
namespace {

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

void declare_run(command::Arguments command, launch::RunArguments& given) {
  command.configuration(given.config, given.overrides);
  command.ranks(given.ranks);
  command.flag("--spawn-local", given.spawn_local,
               "under srun with one task a node: start the node's ranks, one a GPU, or -n of them");
  command.flag("--verbose", given.verbose,
               "say at the start where each rank runs, what a token costs and each layer that a strategy changes, "
               "as a run on several nodes does");
}

void declare_check(command::Arguments command, launch::CheckArguments& given) {
  command.configuration(given.config, given.overrides);
  command.ranks(given.ranks, "number of ranks that the run will have (default 1)");
  command.value("--nodes", given.nodes, "number of nodes that these ranks will be on, as many on each (default 1)")
      .range(1, 1000000);
  command.value("--resolved", given.resolved,
                "also write the configuration here as one file with every option, which means the same in any folder");
  command.value("--gpu", given.gpu,
                "say whether each rank fits into this GPU (v100-32g, a100-40g, a100-80g, h100-80g, h200-141g, or "
                "a size such as 80GiB), and if not what would help; where files of the model or the data are not "
                "there yet, sizes of known models and data.max_length stand in (not with --resolved)");
}

}  // namespace

void declare_own(command::Arguments& program, OwnCommands& given) {
  const auto* run =
      "train; under srun, torchrun or mpirun as one of their ranks, otherwise as a single rank or with -n local ranks";
  const auto* check =
      "read and judge a configuration, print every option and where it comes from; trains nothing, touches no GPU";
  declare_run(program.action("run", run), given.run);
  declare_check(program.action("check", check), given.check);
}

int call_own(const std::string& name, const OwnCommands& given, const launch::Environment& env) {
  if (name == "run") return plugin::open_engine().run(given.run, env);
  return engine_for(given.check, env).check(given.check, env);
}

}  // namespace capstan::cli
