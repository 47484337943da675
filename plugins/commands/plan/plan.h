#pragma once
#include <capstan/command/command.h>

#include <string>
#include <vector>

#include "stragglers.h"

namespace planning {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides = {};
  int gpus = 1;
  int nodes = 1;
  std::string gpu = {};
  double node_bandwidth = 0;       ///< GB/s; 0: not known
  std::string write = {};          ///< file for the best; empty: none
  Disturbances disturbances = {};  ///< with which the best is simulated
};

/// Prints what fits these GPUs, the fastest first, and writes the best as a configuration. Exit code 2 where nothing
/// fits.
int plan(const PlanArguments& arguments, const capstan::command::Call& call);

}  // namespace planning
