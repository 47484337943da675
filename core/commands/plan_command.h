#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides = {};
  int gpus = 1;
  int nodes = 1;
  std::string gpu = {};
  double node_bandwidth = 0;  ///< GB/s; 0: not known
  std::string write = {};     ///< file for the best; empty: none
};

/// `capstan plan`: prints what fits these GPUs, the fastest first, and writes the best as a configuration. Exit code 2
/// where nothing fits.
int plan_command(const PlanArguments& arguments, const launch::Environment& env);

void add_plan_command(CLI::App& app, cli::Chosen& chosen);

}  // namespace commands
CAPSTAN_END_NAMESPACE
