#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/monitor/resident.h>
#include <capstan/monitor_parts/metrics.h>
#include <capstan/nvml/nvml.h>

#include <memory>
#include <optional>

#include "offline_run.h"

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

/// Rank 0 writes the run; nothing is sent.
class Wandb final : public monitor::Monitor {
 public:
  explicit Wandb(const config::Options<WandbOptions>& options) : options_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    if (run.rank == 0 && !is_disabled(run)) run_.emplace(options_, run, system_of(run));
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (run_) run_->log(monitor::step_metrics(step));
    return {};
  }
  void eval_ended(const monitor::EvalEnded& eval) override {
    if (run_) run_->log(monitor::eval_metrics(eval));
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (run_) output_.write(cat("W&B run, offline; to send it: ", run_->finish(run), "\n"));
  }

 private:
  WandbOptions options_;
  Output output_;
  std::optional<OfflineRun> run_;
};

}  // namespace
}  // namespace wandb

CAPSTAN_MONITOR("wandb", "1.0", "an offline run of Weights & Biases, which wandb sync sends", wandb::Wandb,
                wandb::WandbOptions)
