#pragma once
// Runs of the program that must end well, for tests that compare them.
#include <string>
#include <vector>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace end_to_end {

/// A run of the program.
struct NamedRun {
  std::string name;
  int ranks = 1;
  std::string config;                       ///< the text of its configuration
  std::string from = {};                    ///< the checkpoint that it takes up: "other/checkpoints/step-00000002"
  std::vector<std::string> overrides = {};  ///< "train.accumulation=2"
};

/// Runs it to its end, which must be a good one without a word on standard error, in runs/NAME of the workspace.
Metrics run_to_end(const Workspace& work, const NamedRun& run);

}  // namespace end_to_end
