#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace arguments {

/// The configuration file, options that win over it, and how ranks are started.
struct ConfigArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;             ///< 0: not given
  bool spawn_local = false;  ///< under srun with one task a node: start the node's ranks
};

/// Declares the configuration and its overrides; `config_help` says what the first may be.
void add_config(CLI::App& app, ConfigArguments& arguments,
                const std::string& config_help = "configuration file (TOML)");
/// Declares -n.
void add_ranks(CLI::App& app, int& ranks);
/// Declares --spawn-local.
void add_spawn_local(CLI::App& app, bool& spawn_local);

}  // namespace arguments
