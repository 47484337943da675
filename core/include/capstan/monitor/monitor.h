#pragma once
#include <capstan/base/export.h>
#include <capstan/config/value.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// Named numbers, in a fixed order.
using Values = std::vector<std::pair<std::string, double>>;

/// What a monitor says about the whole run. A number is the mean over the ranks that return it; a text is the first
/// rank's. Both stand in summary.json under their names.
struct Summary {
  Values values;
  std::vector<std::pair<std::string, std::string>> texts;
};

/// An option of the run, as it was resolved.
struct Setting {
  std::string table;  ///< "train", "strategy.fsdp"
  std::string key;
  config::Value value;
  config::Origin origin;
};

class Tracer;

/// Memory of this rank that one thing takes.
struct MemoryPart {
  std::string part;      ///< "parameters", "gradients", "optimizer state", "gathered units", "activations", …
  bool on_host = false;  ///< in host memory; on CPU ranks everything is
  std::int64_t bytes = 0;
};

/// A change that would make a rank's memory smaller.
struct MemorySaving {
  std::string change;     ///< in words: "recompute every block"
  std::string options;    ///< how it is asked for: "strategy.recompute.every=1", "--ranks 8"
  std::int64_t peak = 0;  ///< bytes of the GPU's memory that a rank would need then, by prediction
};

/// What a monitor may ask about this rank's memory while the run lasts, in any of its calls. Empty in tests.
struct MemoryQuestions {
  /// What the run's own tensors take now, by what they are for; without activations.
  std::function<std::vector<MemoryPart>()> held;
  /// The same as `capstan check` predicts it at a micro-step's peak, with activations where the run is on a GPU. Takes
  /// as long as `check`; throws Error.
  std::function<std::vector<MemoryPart>()> predicted;
  /// What would make it smaller, the best first; on CPU ranks as a GPU would need it. Takes some times as long.
  std::function<std::vector<MemorySaving>()> savings;
};

/// The run is set up and about to take its first step.
struct RunStarted {
  std::string name;
  std::string folder;
  int rank = 0;
  int world_size = 1;
  int data_parallel_size = 1;
  std::string backend;                  ///< "gloo", "nccl", "in-process", "none"
  std::string device;                   ///< "cpu", "cuda"
  std::vector<std::string> hosts;       ///< host of each rank
  std::vector<std::int64_t> processes;  ///< each rank's process on its host
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t steps = 0;       ///< in the whole run
  std::int64_t first_step = 0;  ///< above 0: the run resumes from the checkpoint of this step
  std::int64_t steps_per_epoch = 0;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 0;
  bool output_is_terminal = false;  ///< standard output is a terminal
  int gpu = -1;                     ///< index of this rank's GPU for LibTorch; -1 on CPU ranks
  std::string gpu_uuid;             ///< "GPU-1b2f…", as NVML names it
  std::string precision;            ///< "fp32", "bf16", "fp16", …
  std::int64_t sequence_length = 0;
  double flops_per_token = 0;  ///< floating-point operations of forward and backward for a position of such a sequence
  double head_flops_per_token = 0;  ///< the part that only a position that bears loss needs: logits
  std::vector<Setting> settings;    ///< all options that have a value
  /// Looks up a variable of this rank's environment; null in tests.
  std::function<std::optional<std::string>(const std::string& name)> environment;
  MemoryQuestions memory;
  /// Where this rank's time since the process began has gone: seconds by phase of the start, in their order (SDK 1.16).
  Values start_s;
};

/// One optimizer step is done. Sums are over all ranks.
struct StepEnded {
  std::int64_t step = 0;                 ///< from 0
  std::int64_t steps = 0;                ///< in the whole run
  std::int64_t epoch = 0;                ///< from 0
  double epoch_progress = 0;             ///< fractional epochs done after this step
  double loss = 0;                       ///< mean over this step's target tokens, without auxiliary losses
  std::optional<double> auxiliary_loss;  ///< auxiliary losses (routers' load), times their coefficient
  double lr = 0;
  double grad_norm = 0;              ///< before clipping, without the loss scale
  std::optional<double> loss_scale;  ///< this step's; absent if loss scaling is off
  bool skipped = false;              ///< loss or gradients were not finite: no update was made
  std::int64_t samples = 0;
  std::int64_t consumed_samples = 0;  ///< since the run's first step
  std::int64_t tokens = 0;            ///< positions computed that are not padding
  std::int64_t padded_tokens = 0;     ///< all positions computed
  std::int64_t target_tokens = 0;     ///< positions that bear loss
  double step_time_s = 0;
  /// What monitors returned for the previous step, reduced over ranks; for a model with experts also how many tokens
  /// each expert computed in this step.
  Values values;
};

/// An evaluation is done. Sums are over all ranks, each sample counted once.
struct EvalEnded {
  std::int64_t step = 0;  ///< steps done
  double epoch_progress = 0;
  std::string split;           ///< "eval" or "train": which questions were asked
  std::optional<double> loss;  ///< mean over target tokens; absent if only answers were scored
  std::int64_t samples = 0;
  double runtime_s = 0;
  /// "exact_match", "f1" and the like, where generation was asked for; with the loss also figures of the objective, and
  /// losses and figures of evaluation sets that have a name: "loss_hard".
  Values scores;
};

/// A checkpoint is committed: on every disk, and under its name. Reported some steps after the step that it holds, not
/// after the same step on all ranks.
struct CheckpointSaved {
  std::int64_t step = 0;  ///< steps done
  std::string path;
  std::int64_t bytes = 0;       ///< size of all ranks' tensors
  double stall_s = 0;           ///< how long this rank's training waited for it
  double write_s = 0;           ///< from then to the commit
  double bytes_per_second = 0;  ///< all ranks together, while it was written
};

/// The run ended well.
struct RunEnded {
  std::int64_t steps = 0;
  double runtime_s = 0;        ///< evaluation and saving included
  double train_runtime_s = 0;  ///< the steps without the rest
  double mean_loss = 0;        ///< mean of the steps' losses
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double epochs = 0;
  std::string weights;  ///< folder of the final weights
  std::string best;     ///< folder of the best checkpoint, where one is kept
  Summary summary;      ///< what monitors said of the run, reduced over ranks
};

/// The run ends on this rank: something threw in a step, an evaluation or a save.
struct RunFailed {
  std::string what;            ///< the error's text
  bool out_of_memory = false;  ///< the GPU or the host had no memory left
};

/// Watches a run. Called on every rank, on the training thread; gets no communicator. A monitor that only
/// prints does so on rank 0. Numbers returned by step_ended are reduced (mean over ranks) by core and appear in
/// the next step's `values` and in metrics.jsonl; a name that a rank does not return counts as absent there.
/// A monitor that throws is disabled on this rank, with a warning that names it; the run continues.
class Monitor {
 public:
  virtual ~Monitor();
  virtual void run_started(const RunStarted&) {}
  virtual Values step_ended(const StepEnded&) { return {}; }
  virtual void eval_ended(const EvalEnded&) {}
  virtual void checkpoint_saved(const CheckpointSaved&) {}
  /// Asked once, when the run has ended well and before run_ended() is called with what all ranks said.
  virtual Summary summary(const RunEnded&) { return {}; }
  virtual void run_ended(const RunEnded&) {}
  /// Asked once, after run_started(): the tracer that is told of the rank's spans until the run ends. Null: none is.
  virtual std::shared_ptr<Tracer> tracer() { return nullptr; }
  /// The last call of a run that does not end well; not called where the process is killed, or another rank failed.
  virtual void run_failed(const RunFailed&) {}
};

}  // namespace monitor
CAPSTAN_END_NAMESPACE
