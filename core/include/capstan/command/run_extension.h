#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class Communicator;
}
namespace command {

/// The device that a rank computes on.
struct RankDevice {
  std::string kind = "cpu";  ///< or "cuda"
  int gpu = 0;               ///< its index for LibTorch
  std::string description;   ///< "NVIDIA H200, …", as the driver names it
  std::string uuid;          ///< "GPU-1b2f…"
  std::int64_t bytes = 0;    ///< size of its memory
  int driver_version = 0;    ///< 13000 is CUDA 13.0
};

/// A rank of a run: it is connected to its peers, and the run's folder is there.
struct RankOfRun {
  comm::Communicator& communicator;  ///< capstan/comm/communicator.h, with the engine
  const RankDevice& device;
  std::filesystem::path folder;  ///< the run's
  /// Looks up a variable of this rank's environment.
  std::function<std::optional<std::string>(const std::string&)> environment;
  /// To be called between parts that take about a second: ends the run on all ranks when one of them was asked to stop,
  /// by an exception that must pass. Collective.
  std::function<void()> end_if_asked;
};

/// What a run predicted and measured, when all its steps are done.
struct TrainedRun {
  std::vector<monitor::MemoryPart> predicted;  ///< what a rank allocates; with activations on a GPU
  std::int64_t setup_bytes = 0;  ///< in tensors on the GPU before the first step, on the rank that used most
  std::int64_t peak_bytes = 0;   ///< the same while steps ran
  double step_s = 0;             ///< mean of a step without the longest; 0: not measured
};

/// What a command can do for a run, besides what it does when it is called: its class is a RunExtension too, and
/// CAPSTAN_RUN_COMMAND (capstan/command.h) says so. The command's options are the table of the configuration that has
/// its name, [preflight]; a run opens the command's file only where its configuration has that table. `check` makes the
/// object and calls check(). A run then calls it on every rank, in the order of the functions here; several extensions
/// are called in the order of their names.
class RunExtension {
 public:
  virtual ~RunExtension() = default;
  /// Adds the faults of the table that no option's range says.
  virtual void check(Diagnostics&) const {}
  /// Before the model is loaded. Returns the exit code (capstan/base/exit_code.h) with which the run ends here, the
  /// same on all ranks; 0: it continues. Collective.
  virtual int before_training(const RankOfRun&) { return 0; }
  /// Adds what it can answer to what the run's monitors may ask.
  virtual void answer(monitor::MemoryQuestions&) {}
  /// After the last step of a run that was not stopped: what rank 0 prints then. Collective.
  virtual std::string after_training(const TrainedRun&) { return {}; }
};

}  // namespace command
CAPSTAN_END_NAMESPACE
