#pragma once
#include "ranks/start.h"
#include "setup/configuration.h"

namespace capstan::ranks {

/// `capstan run`: this process's part of a run, or the start of local ranks. Returns the exit code.
int run_command(const launch::RunArguments& arguments, const launch::Environment& env);

/// What this rank prepares: the command line's configuration, for the devices and folders that the ranks have.
/// Collective.
setup::JobRequest request_of_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                                  const Rank& rank);

}  // namespace capstan::ranks
