#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "setup/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace app {

/// A GPU that a prediction is held against.
struct Gpu {
  std::string name;
  std::int64_t bytes = 0;  ///< that CUDA reports

  /// CUDA's context, NCCL's buffers and gaps between tensors: what a peak of tensors leaves out.
  static constexpr std::int64_t reserve = std::int64_t{3} << 29;
  std::int64_t room() const { return bytes - reserve; }
};

/// From a name ("a100-80g") or a size ("80GiB", "40.5G", both times 2^30). Throws Error with the names otherwise.
Gpu gpu_named(const std::string& text);

/// One thing that a user may change, as options and a number of ranks.
struct Change {
  std::string words;
  std::vector<std::string> overrides;
  int ranks = 0;  ///< 0: as it is
};

/// Bytes of tensors at the peak with a change; negative: it cannot be made (another strategy has that claim, …).
using PeakWith = std::function<std::int64_t(const Change&)>;

struct Fit {
  bool fits = false;
  std::string text;  ///< for people: whether, by how much, and where it does not fit what would help
};

/// Holds the job's predicted peak against the GPU. Throws Error where activations are not in the prediction.
Fit judge_fit(const setup::Job& job, const Gpu& gpu, int ranks, const PeakWith& peak_with);

}  // namespace app
CAPSTAN_END_NAMESPACE
