#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "report/run.h"

CAPSTAN_BEGIN_NAMESPACE
namespace report {

/// Follows a run that is still writing its folder.
class RunWatch {
 public:
  /// Throws Error where the folder is no run's.
  explicit RunWatch(const std::filesystem::path& folder);
  /// Reads what has come since the last call.
  const Run& now();

 private:
  Run run_;
  std::uintmax_t read_ = 0;  ///< bytes of metrics.jsonl
};

/// A line of blocks, higher where the values are: the mean of neighbours where there are more than `columns`.
std::string sparkline(const std::vector<double>& values, std::size_t columns);

/// Who writes to the run's folder now.
struct Writer {
  enum class State { unknown, lives, gone, none };
  State state = State::unknown;
  std::string name;  ///< "process 4711 on node7"
};

/// Has the run come to its end, or will nobody write to its folder any more?
bool is_over(const Run& run, const Writer& writer);

/// Step, loss curve, throughput, the slowest rank, and each GPU's memory and utilisation where they are logged, in so
/// many columns. A run without a summary whose writer is gone was killed.
std::string snapshot_text(const Run& run, std::size_t columns, const Writer& writer = {});

}  // namespace report
CAPSTAN_END_NAMESPACE
