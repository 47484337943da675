#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/launch.h"
#include "setup/session.h"

namespace capstan::app {

struct RunArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;  ///< local ranks to start; 0: not given
  int argc = 0;
  char** argv = nullptr;  ///< to start local ranks with
  setup::Purpose purpose = setup::Purpose::train;
  std::string weights;  ///< folder of a run's weights, see setup::JobRequest
};

/// `capstan run`: this process's part of a run, or the start of local ranks. Returns the exit code.
int run_command(const RunArguments& arguments, const Environment& env);

/// What ranks do with a model that is loaded, other than training it. Returns the exit code.
using RankWork = std::function<int(const setup::Job&, setup::Session&)>;

/// This process's part of such work, or the start of local ranks, as run_command is of training.
int run_ranks(const RunArguments& arguments, const Environment& env, const RankWork& work);

}  // namespace capstan::app
