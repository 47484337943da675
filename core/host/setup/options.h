#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// [run]
struct RunOptions {
  std::optional<std::string> name;
  std::string dir = "runs";
  std::int64_t seed = 1;
  bool deterministic = false;
  std::string device = "auto";
  double host_memory = 0;
  std::string memory_check = "refuse";
  bool save_weights = true;
  std::int64_t verify_replicas = 100;
  std::int64_t requeue_exit_code = 85;
  std::optional<std::string> cache;
  static void describe(config::OptionTable<RunOptions>& t);
};

/// What the host itself reads of [model] and [data] besides `plugin`; the rest of those tables is the plugin's.
struct ModelOptions {
  std::optional<std::string> path;
  std::optional<std::string> preset;
  static void describe(config::OptionTable<ModelOptions>& t);
};
struct DataOptions {
  std::string tokenizer = "auto";
  std::optional<std::string> cache;
  bool packing = false;
  std::optional<std::int64_t> samples_per_rank;
  std::string no_target = "refuse";
  double eval_fraction = 0;
  static void describe(config::OptionTable<DataOptions>& t);
};

/// [[data.sources]]: a source of data that are made of several.
struct DataSourceOptions {
  std::string plugin;
  std::optional<std::string> name;
  double weight = 1;
  static void describe(config::OptionTable<DataSourceOptions>& t);
};

/// [train]
struct TrainOptions {
  std::optional<std::int64_t> max_steps;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> micro_batch;
  std::optional<std::int64_t> accumulation;
  std::optional<std::int64_t> global_batch;
  std::string precision = "fp32";
  std::string loss_scale = "auto";
  double loss_scale_init = 65536;
  std::int64_t loss_scale_window = 2000;
  double loss_scale_min = 1;
  std::string on_nonfinite = "stop";
  std::string reduce = "auto";
  std::string regather = "auto";
  std::string cuda_graphs = "auto";
  bool shuffle = true;
  bool drop_last = false;
  bool sort_by_length = true;
  std::int64_t pad_to_multiple = 0;
  std::int64_t eval_every = 0;
  std::int64_t eval_batch = 8;
  std::int64_t stop_after_evals = 0;
  double stop_min_delta = 0;
  std::int64_t generate_samples = 0;
  std::int64_t generate_train_samples = 0;
  bool generate_each_eval = false;
  std::int64_t max_new_tokens = 64;
  double temperature = 0;
  double top_p = 1;
  static void describe(config::OptionTable<TrainOptions>& t);
};

/// What the host itself reads of [optimizer] besides `plugin`; the rest of the table is the plugin's.
struct OptimizerOptions {
  double lr = 1e-4;
  double weight_decay = 0.01;
  std::string decay = "matrices";
  std::string schedule = "linear";
  std::int64_t warmup_steps = 0;
  double warmup_ratio = 0;
  bool warmup_from_zero = false;
  double min_lr = 0;
  std::int64_t decay_steps = 0;
  double decay_ratio = 0;
  std::string decay_shape = "linear";
  std::int64_t restarts = 1;
  double clip = 1.0;
  static void describe(config::OptionTable<OptimizerOptions>& t);
};

/// [[optimizer.groups]]: parameters that are updated in another way than the others.
struct OptimizerGroupOptions {
  std::vector<std::string> records;
  double lr_factor = 1;
  std::optional<double> weight_decay;
  std::optional<std::string> plugin;
  static void describe(config::OptionTable<OptimizerGroupOptions>& t);
};

/// [comm]
struct CommOptions {
  double timeout_s = 600;
  double silence_s = 10;
  double connect_timeout_s = 300;
  std::string interface;
  std::string ib_hca;
  std::string algorithm;
  static void describe(config::OptionTable<CommOptions>& t);
};

/// [checkpoint]
struct CheckpointOptions {
  std::int64_t every_steps = 0;
  double every_minutes = 0;
  bool every_epoch = false;
  bool every_eval = false;
  bool on_interrupt = true;
  std::int64_t keep = 3;
  bool keep_best = false;
  std::string metric = "eval_loss";
  std::string mode = "auto";
  std::string final_weights = "last";
  std::string save = "all";
  bool asynchronous = true;
  std::string resume = "none";
  std::string verify = "hashes";
  std::vector<std::string> accept;
  /// Checkpoints are saved while the run continues, when it is asked to stop, and at its end.
  bool saves() const { return every_steps > 0 || every_minutes > 0 || every_epoch || every_eval || keep_best; }
  /// One may be saved, if only since somebody interrupts the run.
  bool may_save() const { return saves() || on_interrupt; }
  static void describe(config::OptionTable<CheckpointOptions>& t);
};

/// Faults of a table that no option's range says.
void check_run(const config::Options<RunOptions>& options, Diagnostics& diagnostics);
void check_checkpoint(const config::Options<CheckpointOptions>& options, Diagnostics& diagnostics);

}  // namespace setup
CAPSTAN_END_NAMESPACE
