#pragma once
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "options.h"
#include "records.h"

namespace wandb {

/// A folder as `wandb` leaves it with WANDB_MODE=offline: <folder>/wandb/offline-run-<time>-<id>/ with the log and
/// files/. Of the environment WANDB_PROJECT, WANDB_NAME, WANDB_ENTITY, WANDB_RUN_GROUP and WANDB_DIR count where the
/// option is not set. Keys are neither read nor written.
class OfflineRun {
 public:
  /// System metrics, asked for every system_interval_s; called after steps.
  using SystemMetrics = std::function<capstan::monitor::Values()>;
  OfflineRun(const WandbOptions& options, const capstan::monitor::RunStarted& run, SystemMetrics system);

  void log(const capstan::monitor::Values& values);
  /// Writes summary and exit; returns what sends the run: a command, and for a run that resumes a word before it.
  std::string finish(const capstan::monitor::RunEnded& run);
  /// The run did not end well: W&B calls it failed. Returns the same.
  std::string fail();
  const std::filesystem::path& folder() const { return folder_; }
  /// What is written, also while the run trains.
  const std::filesystem::path& log_file() const { return file_; }

 private:
  std::string sync_line() const;

  std::filesystem::path folder_;
  std::filesystem::path file_;
  bool resumes_ = false;
  SystemMetrics system_;
  double interval_s_;
  double last_stats_s_ = 0;
  std::unique_ptr<RunLog> log_;
  capstan::monitor::Values last_;  ///< each name's newest value
};

}  // namespace wandb
