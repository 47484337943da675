#include "cli/command.h"

#include <CLI/CLI.hpp>

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

}  // namespace capstan::cli
