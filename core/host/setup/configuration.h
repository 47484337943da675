#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <memory>
#include <string>
#include <vector>

#include <capstan/config/model_path.h>
#include "base/phase_clock.h"
#include "config/document.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// What a job is for. All but training leave gradients, optimizer state and the run's length out.
enum class Purpose {
  train,
  evaluate,
  generate  ///< no data either: only the tokenizer counts in [data]
};

/// What stands for the options of a request that say "auto".
struct Settled {
  std::vector<config::Item> values;  ///< each has the origin of the option that says "auto"; they win over overrides
  std::string note;                  ///< for people: what was chosen, and why, a line each
};

/// What a job is made from: a configuration and the number of ranks it is for.
struct JobRequest {
  std::string file;
  std::vector<std::string> overrides;
  Settled settled = {};  ///< what job::settle has made of "auto"
  int world_size = 1;
  int rank = 0;
  std::string device = "cpu";  ///< what run.device = "auto" means here
  bool may_move = false;       ///< check: where that cannot compute what is asked for, it means a GPU elsewhere
  int gpu = 0;                 ///< index of this rank's GPU
  int gpu_capability = 0;      ///< 90 for 9.0; 0: not known
  int ranks_per_node = 0;      ///< 0: all ranks are on one node
  Purpose purpose = Purpose::train;
  std::string weights;           ///< folder of a run's weights, which win over what [model] starts from; empty: none
  std::string split = {};        ///< "train" or "eval": the only one that is read; empty: all
  config::HubCache hub;          ///< where models that model.path names by a hub id are looked for
  bool activations = false;      ///< predict the memory of a micro-step on a GPU too; see predict/dry_run.h
  bool any_host_memory = false;  ///< skip the check of host memory: the run will be on another machine
  /// Where files of the model, its tokenizer or the data are not there yet, sizes that are known stand in for them: a
  /// preset for a published model, the data's max_length for its samples. What is missing is said. Nothing can run so.
  bool may_lack_files = false;
  bool sizes_only = false;    ///< only the length of the data counts: no file of it is opened
  std::int64_t gpu_room = 0;  ///< bytes for tensors on the run's smallest GPU, for an automatic micro-batch; 0: unknown
  std::string cache;          ///< the environment's folder for run.cache, where that is not set
  std::shared_ptr<PhaseClock> phases = {};  ///< a rank's start; null: there is no rank
  /// A phase of the start has ended.
  void ended(const char* phase) const {
    if (phases) phases->end(phase);
  }
};

/// The first stage: what the user wrote, with the host's tables as typed options. An option with a fault has its
/// default, so that later stages can say what else is wrong; nothing runs then.
struct Configuration {
  JobRequest request;
  config::Document document;  ///< the plugins' tables are read from it
  config::Options<RunOptions> run;
  config::Options<TrainOptions> train;
  config::Options<OptimizerOptions> optimizer;
  config::Options<CheckpointOptions> checkpoint;
  config::Options<CommOptions> comm;
  std::string name;               ///< the run's
  std::string device;             ///< "cpu" or "cuda"
  std::string cache;              ///< folder that runs share; empty: none
  bool auto_micro_batch = false;  ///< train.micro_batch is "auto", and nothing has settled it: 1 stands for it

  bool trains() const { return request.purpose == Purpose::train; }
  /// train.pad_to_multiple, or what it is where that says 0.
  std::int64_t row_multiple() const {
    return train->pad_to_multiple > 0 ? train->pad_to_multiple : device == "cuda" ? 64 : 8;
  }
};

/// `host`: knows whose tables are commands' (none: no table is). Throws Error where the rest would only give misleading
/// faults: a missing or broken file.
Configuration read_configuration(const JobRequest& request, Diagnostics& faults, const plugin::Host* host = nullptr);

}  // namespace setup
CAPSTAN_END_NAMESPACE
