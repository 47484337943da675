#pragma once
#include <filesystem>
#include <functional>

#include "cli/command.h"
#include "ranks/start.h"

namespace capstan::commands {

/// `capstan preflight`: measures what the ranks of a run would have, says what is wrong with it in one line, and leaves
/// preflight.json in a folder of its own, <run.dir>/<run.name>-preflight. Returns the exit code.
int preflight_command(const launch::RunArguments& arguments, const launch::Environment& env);

/// What preflight.before_run asks for, as a step of `run`: leaves preflight.json in the run's folder. Returns the exit
/// code that the run is to end with, the same on all ranks; 0 to continue. `end_if_asked`: command::RankOfRun's.
/// Collective.
int preflight_of_run(const ranks::Rank& rank, const std::filesystem::path& folder,
                     const std::function<void()>& end_if_asked);

/// Declares `capstan preflight`.
void add_preflight_command(CLI::App& app, cli::Chosen& chosen);

}  // namespace capstan::commands
