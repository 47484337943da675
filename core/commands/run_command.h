#pragma once
#include <functional>

#include "ranks/start.h"
#include "session/session.h"

namespace capstan::commands {

/// `capstan run`: this process's part of a run, or the start of local ranks. Returns the exit code.
int run_command(const launch::RunArguments& arguments, const launch::Environment& env);

/// What ranks do with a model that is loaded, other than training it. Returns the exit code.
using RankWork = std::function<int(const session::Job&, session::Session&)>;

/// This process's part of such work, or the start of local ranks, as run_command is of training.
int run_ranks(const launch::RunArguments& arguments, const launch::Environment& env, const RankWork& work);

}  // namespace capstan::commands
