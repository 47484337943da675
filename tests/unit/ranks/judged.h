#pragma once
// What `capstan check` says of a configuration that it refuses: in this process, with the plugins that were built.
#include <capstan/base/error.h>
#include <capstan_places.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "job/settle.h"
#include "launch/error_report.h"
#include "launch/launch.h"
#include "support/folder.h"
#include "support/small_config.h"

namespace judged {

using Overrides = std::vector<std::string>;

/// The small configuration with these changes.
inline std::string small_config(const test::Changes& changes = {}, const std::string& more = {}) {
  return test::small_config(CAPSTAN_SOURCE_DIR, changes, more);
}

/// The file of a plugin that only tests have.
inline std::string fixture(const std::string& folder, const std::string& name) {
  return capstan::cat(CAPSTAN_BINARY_DIR, "/tests/", folder, "/", name, ".so");
}

/// Faults as they are said where there is one.
inline std::string one_fault(const std::string& where, const std::string& what, const std::string& fix) {
  return capstan::cat("capstan: error\n", where, ": ", what, "\n", fix.empty() ? "" : "    fix: " + fix + "\n");
}

/// All that is said of this configuration's faults; empty: it has none.
inline std::string refusal(const std::string& config, const Overrides& overrides = {}, int ranks = 1,
                           const std::map<std::string, std::string>& variables = {}, int rank = 0) {
  auto host = capstan::cli::plugin_host(capstan::launch::environment(variables));
  capstan::setup::JobRequest request;
  request.file = config;
  request.overrides = overrides;
  request.world_size = request.ranks_per_node = ranks;
  request.rank = rank;
  request.activations = true;
  capstan::Diagnostics faults;
  try {
    (void)capstan::job::make_job(request, host, faults);
    faults.throw_if_any();
  } catch (const capstan::Error& error) {
    return capstan::launch::error_text(error);
  }
  return {};
}

}  // namespace judged
