#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/registry.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <capstan/plugin/host.h>
#include "job/predict.h"
#include "predict/gpu.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Reads a name ("a100-80g") or a size ("80GiB", "40.5G", both times 2^30). Throws Error with the names otherwise.
Gpu gpu_named(const std::string& text);

/// Faults where the GPU cannot compute in this precision, or not with a LibTorch for this CUDA (13; 0: not known).
void judge_gpu(const Gpu& gpu, const std::string& precision, int cuda_major, Diagnostics& faults);

/// One thing that a user may change, as options and a number of ranks.
struct Change {
  std::string words;
  std::vector<std::string> overrides;
  int ranks = 0;  ///< 0: as it is
  int nodes = 0;  ///< for `ranks`; 0: not said
};

/// Bytes that a rank needs.
struct Peak {
  std::int64_t gpu = 0;   ///< bytes of tensors
  std::int64_t host = 0;  ///< for what is offloaded and for checkpoints
  bool host_fits = true;  ///< for all ranks of a node into what run.host_memory says, if it says anything
};

/// What a rank needs with a change; nothing where it cannot be made (another strategy has that claim, …).
using PeakWith = std::function<std::optional<Peak>(const Change&)>;

/// A change that a plugin offers.
struct Offer {
  plugin::Saving::By by = plugin::Saving::By::sharding;
  Change change;
};
/// The changes that the host's strategies offer.
std::vector<Offer> offers_of(plugin::Host& host);

/// What is tried where a run does not fit.
struct Trials {
  std::vector<Offer> offers;
  PeakWith peak_with;
};

/// What was predicted, and for which device and batch.
struct Predicted {
  const job::Prediction& prediction;
  std::string device;  ///< "cpu" or "cuda"
  setup::BatchShape batch;
};

/// A change that makes the peak smaller, and what it comes to.
struct Help {
  Change change;
  Peak peak;
};

/// Changes other than more ranks that make this peak smaller, the best first; where several come to the same, only the
/// first that is tried.
std::vector<Help> what_saves_most(const setup::BatchShape& batch, std::int64_t peak, const Trials& trials);

/// Holds the predicted peak against the GPU. Throws Error where activations are not in the prediction.
Fit judge_fit(const Predicted& predicted, const Gpu& gpu, const RankCounts& ranks, const Trials& trials);

}  // namespace predict
CAPSTAN_END_NAMESPACE
