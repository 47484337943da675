#pragma once
#include <string>
#include <vector>

#include "app/launch.h"

namespace capstan::app {

struct RunArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;  ///< local ranks to start; 0: not given
  int argc = 0;
  char** argv = nullptr;  ///< to start local ranks with
};

/// `capstan run`: this process's part of a run, or the start of local ranks. Returns the exit code.
int run_command(const RunArguments& arguments, const Environment& env);

}  // namespace capstan::app
