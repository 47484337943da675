#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/data/source.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/mesh.h>
#include <capstan/monitor/monitor.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/strategy.h>

#include <memory>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/to_toml.h"
#include "data/batch_shape.h"
#include "data/batches.h"
#include "plugin/host.h"
#include "setup/model_path.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// A plugin's object with what messages need to know of it.
template <class Interface>
struct Made {
  std::string name;
  std::string where;  ///< what in the configuration names it
  std::string table;  ///< "strategy.fsdp"
  std::string file;   ///< the shared library
  std::shared_ptr<Interface> object;
  std::vector<config::Entry> host;        ///< the host's own options of its table
  std::vector<config::Resolved> options;  ///< the plugin's
};

/// What a job is for. All but training leave gradients, optimizer state and the run's length out.
enum class Purpose {
  train,
  evaluate,
  generate  ///< no data either: of [data] only the tokenizer counts
};

/// What a job is made from: a configuration and the number of ranks it is for.
struct JobRequest {
  std::string file;
  std::vector<std::string> overrides;
  int world_size = 1;
  int rank = 0;
  std::string device = "cpu";  ///< what run.device = "auto" means here
  bool may_move = false;       ///< check: where that cannot compute what is asked for, it means a GPU elsewhere
  int gpu = 0;                 ///< index of this rank's GPU
  int ranks_per_node = 0;      ///< 0: all ranks are on one node
  Purpose purpose = Purpose::train;
  std::string weights;           ///< folder of a run's weights, which win over what [model] starts from; empty: none
  HubCache hub;                  ///< where models that model.path names by a hub id are looked for
  bool activations = false;      ///< predict the memory of a micro-step on a GPU too; see setup/rehearse.h
  bool only_model = false;       ///< export: no data, no monitors, no mesh; the job's units can be built
  bool any_host_memory = false;  ///< do not hold what is offloaded against host memory: another machine's counts
  std::string cache;             ///< the environment's folder for run.cache, where that is not set
};

/// A configuration that was read and judged: plugins loaded, options typed, mesh and batch sizes fixed, data opened.
/// Nothing of the model's size is allocated and no GPU is touched. Reached the same way by `check` and `run`.
struct Job {
  config::Options<RunOptions> run;
  config::Options<ModelOptions> model_options;
  config::Options<DataOptions> data_options;
  config::Options<TrainOptions> train;
  config::Options<OptimizerOptions> optimizer;
  config::Options<CheckpointOptions> checkpoint;
  config::Options<CommOptions> comm;
  config::Options<PreflightOptions> preflight;

  std::string file;
  std::string name;    ///< of the run
  std::string device;  ///< "cpu" or "cuda"
  int gpu = 0;         ///< index of this rank's GPU
  Purpose purpose = Purpose::train;
  std::string weights;  ///< see JobRequest
  std::string cache;    ///< folder that runs share; empty: none
  Made<nn::Model> model;
  Made<data::Data> data;
  std::vector<Made<strategy::Strategy>> strategies;
  std::vector<Made<monitor::Monitor>> monitors;

  layout::Mesh mesh;
  int rank = 0;
  int ranks_per_node = 1;
  data::BatchShape batch;
  data::Plan plan;
  nn::ModelFacts model_facts;
  strategy::ShardPolicy policy;
  std::int64_t sample_length = 0;  ///< longest sequence that the data gives
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::shared_ptr<data::DataSource> train_data;
  std::shared_ptr<data::DataSource> eval_data;  ///< null without an evaluation file

  /// Memory that this rank will allocate; with activations where these were asked for and could be predicted.
  std::vector<layout::Footprint> footprints;
  bool activations = false;      ///< whether they are asked for, then whether they are among the footprints
  std::string activations_note;  ///< for people: what a micro-step keeps and where the peak is, or why it is unknown

  /// What strategies made of the model, for people.
  std::string model_changes;

  strategy::Facts facts() const;

  /// A sample of one of the splits; what reading it throws names the data plugin.
  data::Sample sample(const data::DataSource& source, std::int64_t index) const;
  /// The same to be asked, with room for train.max_new_tokens tokens in the model's positions behind its prompt.
  data::Sample question(const data::DataSource& source, std::int64_t index) const;
  /// Every table of the resolved configuration, in the order data, model, strategies, optimizer, train, monitors.
  std::vector<config::ResolvedTable> tables() const;
  /// The tables for people (option, value, origin), then arithmetic().
  std::string text() const;
  /// Model, mesh, batch and run length, a line each, with their arithmetic.
  std::string arithmetic() const;
  /// The model's parameters and its floating-point operations, a line each.
  std::string model_summary() const;
  /// How the ranks share the model and the batch: the mesh, what is left over for data parallelism, the global batch.
  std::string ranks_summary() const;
};

/// Faults of any kind are added to `diagnostics`; the job is only usable when there are none. Throws Error where
/// going on would only give misleading faults (a missing or broken file, a plugin that does not load).
Job prepare(const JobRequest& request, plugin::Host& host, Diagnostics& diagnostics);

}  // namespace setup
CAPSTAN_END_NAMESPACE
