#pragma once
#include <capstan/record/run_holder.h>

#include <string>
#include <vector>

#include "runs/run.h"

namespace top {

/// Follows a run that is still writing its folder.
class RunWatch {
 public:
  /// Throws Error where the folder is no run's.
  explicit RunWatch(const std::filesystem::path& folder);
  /// Reads what has come since the last call.
  const runs::Run& now();

 private:
  runs::Run run_;
  std::uintmax_t read_ = 0;  ///< bytes of metrics.jsonl
};

/// A line of blocks, higher where the values are: the mean of neighbours where there are more than `columns`.
std::string sparkline(const std::vector<double>& values, std::size_t columns);

/// Step, loss curve, throughput, the slowest rank, and each GPU's memory and utilisation where they are logged, in
/// `columns` columns. A run without a summary whose writer is gone was killed.
std::string snapshot_text(const runs::Run& run, std::size_t columns, const capstan::record::HolderSeen& writer);

}  // namespace top
