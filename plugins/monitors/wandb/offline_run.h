#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "records.h"

namespace wandb {

struct WandbOptions {
  std::string project = {};
  std::string name = {};
  std::optional<std::string> folder = {};
  double system_interval_s = 10;

  static void describe(capstan::config::OptionTable<WandbOptions>& t);
};

/// A folder as `wandb` leaves it with WANDB_MODE=offline: <folder>/wandb/offline-run-<time>-<id>/ with the log and
/// files/. Of the environment WANDB_MODE (disabled: nothing is written; all else is offline), WANDB_PROJECT,
/// WANDB_NAME, WANDB_ENTITY, WANDB_RUN_GROUP and WANDB_DIR count where the option is not set. Keys are neither read nor
/// written.
class OfflineRun {
 public:
  /// System metrics, asked for every system_interval_s; called after steps.
  using SystemMetrics = std::function<capstan::monitor::Values()>;
  OfflineRun(const WandbOptions& options, const capstan::monitor::RunStarted& run, SystemMetrics system);

  void log(const capstan::monitor::Values& values);
  /// Writes summary and exit; returns the line that sends the run.
  std::string finish(const capstan::monitor::RunEnded& run);
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  bool resumes_ = false;
  SystemMetrics system_;
  double interval_s_;
  double last_stats_s_ = 0;
  std::unique_ptr<RunLog> log_;
  capstan::monitor::Values last_;  ///< each name's newest value
};

/// What the environment says: "disabled" switches all off.
bool is_disabled(const capstan::monitor::RunStarted& run);

}  // namespace wandb
