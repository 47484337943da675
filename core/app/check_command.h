#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/launch.h"

namespace capstan::app {

struct CheckArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;              ///< 0: not given
  std::string resolved = {};  ///< a file to write the resolved configuration to; empty: none
};

/// `capstan check`: prints the resolved options and returns success, or throws Error with every fault.
int check_command(const CheckArguments& arguments, const Environment& env);

/// The folders of CAPSTAN_PLUGIN_PATH.
std::vector<std::filesystem::path> plugin_folders(const Environment& env);

}  // namespace capstan::app
