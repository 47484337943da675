#pragma once
#include "ranks/start.h"

namespace capstan::commands {

/// `capstan run`: this process's part of a run, or the start of local ranks. Returns the exit code.
int run_command(const launch::RunArguments& arguments, const launch::Environment& env);

}  // namespace capstan::commands
