#include <capstan/base/log.h>
#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan/monitor.h>
#include <capstan/monitor/planned.h>
#include <capstan/monitor/resident.h>
#include <capstan/monitor_parts/metrics.h>
#include <capstan/nvml/nvml.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "client.h"
#include "offline_run.h"
#include "options.h"
#include "sender.h"

namespace wandb {
namespace {

using namespace capstan;

// Under wandb's own names.
OfflineRun::SystemMetrics system_of(const monitor::RunStarted& run) {
  return [nvml = std::make_shared<monitor::Nvml>(), on_gpu = run.gpu >= 0] {
    constexpr double mebibyte = 1024.0 * 1024.0;
    monitor::Values values{{"proc.memory.rssMB", static_cast<double>(monitor::resident_bytes()) / mebibyte}};
    if (!on_gpu) return values;
    for (const auto& gpu : nvml->gpus()) {
      const auto name = cat("gpu.", gpu.index, ".");
      if (const auto percent = nvml->utilisation(gpu)) values.emplace_back(name + "gpu", *percent);
      const auto memory = nvml->memory(gpu);
      if (!memory || memory->total == 0) continue;
      values.emplace_back(name + "memoryAllocatedBytes", static_cast<double>(memory->used));
      values.emplace_back(name + "memoryAllocated",
                          100 * static_cast<double>(memory->used) / static_cast<double>(memory->total));
    }
    return values;
  };
}

// After a stop or a failure: what started the run may not wait for long.
constexpr double hurried_wait_s = 10;

/// Rank 0 writes the run; a Sender sends what is written where that is asked for.
class Wandb final : public monitor::Monitor, public monitor::PlannedRunCheck {
 public:
  explicit Wandb(const config::Options<WandbOptions>& options) : options_(options) {}
  /// Where another rank failed, run_failed() was not called.
  ~Wandb() override {
    try {
      if (run_) end_failed();
    } catch (const std::exception& error) {
      log::warning(cat("W&B run: ", error.what()));
    }
  }
  Wandb(const Wandb&) = delete;
  Wandb& operator=(const Wandb&) = delete;
  void check(const monitor::PlannedRun& run, Diagnostics& diagnostics) const override {
    if (run.rank == 0 && mode_of(*options_, data::process_environment()) == Mode::online)
      check_client(options_, diagnostics);
  }
  void run_started(const monitor::RunStarted& run) override {
    const auto mode = mode_of(*options_, run.environment);
    if (run.rank != 0 || mode == Mode::disabled) return;
    steps_ = run.steps;
    run_.emplace(*options_, run, system_of(run));
    if (mode != Mode::online) return;
    sender_.emplace(Sender::Start{python_program(options_->python), run_->log_file(), options_->system_interval_s});
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    write(monitor::step_metrics(step));
    tell();
    return {};
  }
  void eval_ended(const monitor::EvalEnded& eval) override { write(monitor::eval_metrics(eval)); }
  void run_ended(const monitor::RunEnded& run) override {
    if (!run_) return;
    const auto sync_line = std::exchange(run_, std::nullopt)->finish(run);
    finish(sync_line, run.steps < steps_ ? std::min(options_->wait_s, hurried_wait_s) : options_->wait_s);
  }
  void run_failed(const monitor::RunFailed&) override {
    if (run_) end_failed();
  }

 private:
  // Without the folder there is nothing to send.
  void write(const monitor::Values& values) {
    try {
      if (run_) run_->log(values);
    } catch (...) {
      run_.reset();
      sender_.reset();
      throw;
    }
  }

  void end_failed() {
    const auto sync_line = std::exchange(run_, std::nullopt)->fail();
    finish(sync_line, std::min(options_->wait_s, hurried_wait_s));
  }

  void tell() {
    if (!sender_) return;
    const auto news = sender_->news();
    if (!news.url.empty()) log::info(cat("W&B run: ", url_ = news.url));
    for (const auto& warning : news.warnings) log::warning(warning);
  }

  void finish(const std::string& sync_line, double wait_s) {
    const bool is_sent = sender_ && sender_->finish(std::chrono::duration<double>(wait_s));
    tell();
    if (is_sent) {
      output_.write(cat("W&B run: ", url_, "\n"));
    } else if (sender_) {
      output_.write(cat("W&B run, not all of which is sent; to send it again: ", sync_line, "\n"));
    } else {
      output_.write(cat("W&B run, offline; to send it: ", sync_line, "\n"));
    }
  }

  config::Options<WandbOptions> options_;
  std::int64_t steps_ = 0;
  std::string url_;
  Output output_;
  std::optional<OfflineRun> run_;
  std::optional<Sender> sender_;
};

}  // namespace
}  // namespace wandb

CAPSTAN_MONITOR("wandb", "1.0", "a run of Weights & Biases, as a folder that wandb sync sends, or online too",
                wandb::Wandb, wandb::WandbOptions)
