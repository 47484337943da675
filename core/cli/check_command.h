#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "plan/gpu_fit.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

struct CheckArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;              ///< 0: not given
  std::string resolved = {};  ///< a file to write the resolved configuration to; empty: none
  std::string gpu = {};       ///< a GPU or a size of memory that the run is to fit into; empty: none
  int nodes = 0;              ///< that the ranks are spread over; 0: not given, all ranks are on one
};

/// `capstan check`: prints the resolved options and returns success, or throws Error with every fault. A run that does
/// not fit into the GPU that was asked about is a bad configuration.
int check_command(const CheckArguments& arguments, const launch::Environment& env);

/// What a rank would need with a change, by preparing the job anew with the same global batch (where the ranks stay as
/// many); nothing where it cannot be made.
std::optional<plan::Peak> peak_with(setup::JobRequest request, const plan::Change& change, std::int64_t global_batch,
                                    plugin::Host& host);

/// The folders of CAPSTAN_PLUGIN_PATH.
std::vector<std::filesystem::path> plugin_folders(const launch::Environment& env);
/// CAPSTAN_TRUST_PLUGINS=1: plugins that others may write are loaded too.
bool trusts_writers(const launch::Environment& env);

/// Declares `capstan check`.
void add_check_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
