#include "speed.h"

#include <capstan/base/output.h>
#include <capstan/monitor.h>
#include <capstan/nvml/nvml.h>

#include <string>

namespace train_speed {
namespace {

using namespace capstan;

/// Returns each step's rates on every rank; rank 0 prints the summary at the end.
class TrainSpeed final : public monitor::Monitor {
 public:
  explicit TrainSpeed(const config::Options<SpeedOptions>& options) : speed_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    const monitor::Nvml nvml;
    const auto* gpu = nvml.find(run.gpu_uuid);
    speed_.run_started(run, gpu == nullptr ? "" : gpu->name);
    prints_ = run.rank == 0;
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override { return speed_.step_ended(step); }
  // Only rank 0 returns any, so that summary.json says what is printed: ranks' clocks differ a little.
  monitor::Summary summary(const monitor::RunEnded& run) override {
    return prints_ ? speed_.summary_entries(run) : monitor::Summary{};
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (!prints_) return;
    output_.write(speed_.summary(run));
  }

 private:
  Output output_;
  Speed speed_;
  bool prints_ = false;
};

}  // namespace
}  // namespace train_speed

CAPSTAN_MONITOR("train_speed", "1.0", "samples, steps and tokens per second", train_speed::TrainSpeed,
                train_speed::SpeedOptions)
