#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>
#include <capstan/plan/predictor.h>
#include <capstan/plugin/host.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/side_library.h"
#include "predict/gpu.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {
struct JobRequest;
}
namespace job {
struct Position;
struct Prediction;
struct PredictionInputs;
struct Job;
}  // namespace job

namespace predict {

/// A configuration that is planned, by its file and overrides, and the environment that it is read in.
struct Planned {
  std::string config;
  std::vector<std::string> overrides;
  plan::Predictor::Environment env;
};

/// What libcapstan_predict.so does for the engine, which is not linked with it: door() opens it the first time, where
/// something says "auto", a GPU's memory counts, or a person asks what a run would take. A run on CPUs with numbers
/// never does. One thread at a time: a dry run has the process's meta device for itself.
class Door {
 public:
  virtual ~Door() = default;

  /// As job::settle says.
  virtual setup::JobRequest settle(const setup::JobRequest& request, plugin::Host& host,
                                   Diagnostics& unknown) const = 0;
  /// Adds to the predictions of all positions on pp what a micro-step takes and computes on a GPU. Throws Error where a
  /// strategy's port is passed over.
  virtual void add_micro_step(const std::vector<job::Position>& positions, const job::PredictionInputs& inputs,
                              std::vector<job::Prediction>& predictions) const = 0;

  /// Reads a name ("a100-80g") or a size ("80GiB", "40.5G", both times 2^30). Throws Error with the names otherwise.
  virtual Gpu gpu_named(const std::string& text) const = 0;
  /// Faults where the GPU cannot compute in this precision, or not with a LibTorch for this CUDA (13; 0: not known).
  virtual void judge_gpu(const Gpu& gpu, const std::string& precision, int cuda_major, Diagnostics& faults) const = 0;
  /// Holds the job's predicted peak against the GPU. Throws Error where activations are not in the prediction.
  virtual Fit judge_fit(const job::Job& job, const Gpu& gpu, const RankCounts& ranks, plugin::Host& host) const = 0;
  /// What stands against a run's start, with the tables of `check`: it does not fit into its smallest GPU. Empty: it
  /// fits, or nothing is known of one or the other.
  virtual std::string too_large_text(const job::Job& job, plugin::Host& host) const = 0;
  /// The changes that would make a run smaller, the best first; of a request for CPUs, what a GPU would save.
  virtual std::vector<monitor::MemorySaving> savings(const setup::JobRequest& request, plugin::Host& host) const = 0;
  /// A few lines for people: predicted against actual memory and the step's time. Empty where nothing was predicted.
  virtual std::string against_actual(const job::Job& job, const Actual& actual) const = 0;

  /// Throws Error as plan::Predictor::open does.
  virtual std::unique_ptr<plan::Predictor> planner(const Planned& planned, const plan::Machines& machines,
                                                   plugin::Host& host) const = 0;
};

inline const Door& door() { return plugin::door_of<Door>("predict"); }

}  // namespace predict
CAPSTAN_END_NAMESPACE
