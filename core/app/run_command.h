#pragma once
#include <functional>

#include "app/launch.h"
#include "app/start.h"
#include "setup/session.h"

namespace capstan::app {

/// `capstan run`: this process's part of a run, or the start of local ranks. Returns the exit code.
int run_command(const RunArguments& arguments, const Environment& env);

/// What ranks do with a model that is loaded, other than training it. Returns the exit code.
using RankWork = std::function<int(const setup::Job&, setup::Session&)>;

/// This process's part of such work, or the start of local ranks, as run_command is of training.
int run_ranks(const RunArguments& arguments, const Environment& env, const RankWork& work);

}  // namespace capstan::app
