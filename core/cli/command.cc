#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

namespace capstan::cli {

void add_config_arguments(CLI::App& command, const ConfigArguments& arguments, const std::string& ranks_help) {
  command.add_option("config", arguments.config, "configuration file (TOML)")->required();
  command.add_option(
      "overrides", arguments.overrides,
      "options that win over the file: train.max_steps=250 strategy.fsdp.mode=no_shard; train.accumulation= "
      "unsets what the file says");
  if (arguments.ranks) command.add_option("-n,--ranks", *arguments.ranks, ranks_help)->check(CLI::Range(1, 1000000));
}

void choose_with(CLI::App& command, Chosen& chosen, Chosen run) {
  command.callback([&chosen, run = std::move(run)] { chosen = run; });
}

void add_ranks_arguments(CLI::App& command, Chosen& chosen,
                         std::function<int(const launch::RunArguments&, const launch::Environment&)> run) {
  const auto given = std::make_shared<launch::RunArguments>();
  add_config_arguments(command, {given->config, given->overrides, &given->ranks}, "start this many local ranks");
  command.add_flag("--spawn-local", given->spawn_local,
                   "under srun with one task a node: start the node's ranks, one a GPU, or -n of them");
  choose_with(command, chosen, [given, run = std::move(run)](const Process& process) {
    given->command_line.assign(process.argv, process.argv + process.argc);
    return run(*given, process.env);
  });
}

}  // namespace capstan::cli
