#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/report_command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

struct SweepArguments {
  std::string config;
  std::vector<std::string> overrides;  ///< a list of values, as in lr=1e-4,5e-5, is an axis
  std::string ranks = "1";
  std::string nodes = "1";
  std::string weak;
  bool submit = false;
  std::string submitter = "slurm/submit";
  std::vector<std::string> sbatch;  ///< options for it
  ReportArguments report;
};

/// `capstan sweep`: runs a set of runs one after another, or submits them, and ends with their report. Runs that have
/// ended with the same configuration are not repeated.
int sweep_command(const SweepArguments& arguments);

/// Declares it.
void add_sweep_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
