#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace mlflow {

struct MlflowOptions {
  std::optional<std::string> folder = {};
  std::string experiment = {};
  double interval_s = 10;

  static void describe(capstan::config::OptionTable<MlflowOptions>& t);
};

/// A name that MLflow takes: letters, digits, '_', '-', '.', ' ', ':' and '/'; "gpu_util_%" becomes
/// "gpu_util_percent", anything else '_'.
std::string metric_name(const std::string& name);

/// A run in MLflow's file store, <folder>/mlruns: meta.yaml, a file for each option (params), each number (metrics:
/// time, value and step a line) and each tag. A run that resumes continues its own. Throws FileError.
class Store {
 public:
  /// The environment's MLFLOW_TRACKING_URI (a folder or file:…), MLFLOW_EXPERIMENT_NAME and MLFLOW_RUN_NAME count where
  /// the option is not set.
  Store(const MlflowOptions& options, const capstan::monitor::RunStarted& run);
  /// Numbers are in the files at the latest interval_s after it: each has a file of its own.
  void log(std::int64_t step, const capstan::monitor::Values& values);
  void finish(const capstan::monitor::RunEnded& run);
  const std::filesystem::path& root() const { return root_; }

 private:
  void flush();
  std::string find_experiment(const std::string& name);
  bool find_run(const std::string& experiment, const std::string& run_folder);
  void write_meta(int status, std::int64_t end_ms) const;
  std::filesystem::path root_;
  std::filesystem::path run_;
  std::string experiment_;
  std::string id_;
  std::string name_;
  std::int64_t start_ms_ = 0;
  double interval_s_;
  std::int64_t flushed_ms_ = 0;
  std::map<std::string, std::string> pending_;  ///< lines by metric
};

}  // namespace mlflow
