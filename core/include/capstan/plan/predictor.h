#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>
#include <capstan/strategy/program.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// What a run would be on.
struct Machines {
  int gpus = 1;               ///< all of them
  int nodes = 1;              ///< with as many GPUs on each
  std::string gpu;            ///< a name ("h100-80g") or a size ("80GiB")
  double node_bandwidth = 0;  ///< bus bandwidth of collectives that cross nodes, bytes/s; 0: not known
};

/// What an action takes, whichever its micro-batch is, in seconds.
struct ActionTime {
  strategy::Action action;
  double computing = 0;  ///< and waiting for copies of its own to host memory
  double waiting = 0;    ///< for collectives of its layers; of a send: until it arrives
};

/// A step at a position on pp, or of a model that is not cut into stages.
struct PositionTime {
  strategy::Program program;        ///< uncut, a forward stands for a micro-batch's whole work
  std::vector<ActionTime> actions;  ///< each that differs in more than its micro-batch, but for receives
  double seconds = 0;               ///< all that the position does, without waiting for other positions
  double moving = 0;                ///< gathers and reductions, hidden or not; what is not hidden is in `seconds`
  /// Computing and waiting; 0 for a receive.
  double seconds_of(const strategy::Action& action) const;
};

/// What a step takes on a rank, as far as it can be predicted.
struct Estimate {
  std::int64_t gpu_bytes = 0;      ///< the peak of the GPU's tensors
  std::int64_t host_bytes = 0;     ///< for what is offloaded and for checkpoints
  bool fits = false;               ///< peak and 5 % within the GPU's room, host memory within what run.host_memory says
  double seconds = 0;              ///< 0: no time is predicted
  std::string no_time;             ///< why, where something of the configuration hinders it; may be empty
  std::string memory_table;        ///< for people: "memory of a rank, …", the peak's parts
  std::string time_table;          ///< the same of the time; empty: none is predicted
  std::string changes;             ///< for people: what strategies make of the model, a line each; may be empty
  std::int64_t sample_length = 0;  ///< tokens of a sample
  std::string lacking;             ///< what stands in for files that are not there yet, a line each
  std::vector<PositionTime> positions;  ///< by position on pp; empty: no time is predicted
  int split_ranks = 1;                  ///< neighbouring ranks that compute a micro-batch together (cp x ep x tp)
  int gather_ranks = 1;                 ///< data ranks that gather parameters from each other in each micro-step
};

/// Predicts what a configuration takes on machines that need not be there: no GPU is touched and no file of the data is
/// opened. One thread at a time.
class Predictor {
 public:
  using Environment = std::function<std::optional<std::string>(const std::string&)>;
  /// Throws Error for machines that cannot be, and for a configuration with faults that no option of a strategy
  /// repairs. `host` outlives it.
  static std::unique_ptr<Predictor> open(const std::string& config, const std::vector<std::string>& overrides,
                                         const Machines& machines, const Environment& env, plugin::Host& host);
  virtual ~Predictor();

  /// Samples of a step, as the configuration has it.
  virtual std::int64_t global_batch() const = 0;
  /// The tables [strategy.NAME] that the configuration has: is it switched on?
  virtual std::map<std::string, bool> strategies() const = 0;
  /// A text for people: what predicted times rest on, or why there are none.
  virtual std::string about_times() const = 0;

  /// How many ranks have samples of their own with these options too ("strategy.fsdp.mode=no_shard"), micro-batches of
  /// 1 and the same global batch; nothing where the strategies, the model and the GPUs do not allow it. Fast.
  virtual std::optional<std::int64_t> data_ranks(const std::vector<std::string>& overrides) const = 0;
  /// What a step takes with these options; nothing where it cannot be made, or not be predicted.
  virtual std::optional<Estimate> predict(const std::vector<std::string>& overrides) const = 0;
  /// Throws Error with all faults that the configuration has on these GPUs; returns where it has none.
  virtual void judge() const = 0;
};

}  // namespace plan
CAPSTAN_END_NAMESPACE
