#include "screen.h"

#include <capstan/base/clock.h>
#include <capstan/base/output.h>
#include <capstan/monitor.h>
#include <capstan/monitor/resident.h>
#include <capstan/nvml/nvml.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace console {
namespace {

using namespace capstan;

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// What this rank holds: of its GPU what nvidia-smi says, else what is in host memory.
class Memory {
 public:
  void start(const monitor::RunStarted& run) {
    if (run.device != "cpu") nvml_.emplace();
    if (nvml_) gpu_ = nvml_->find(run.gpu_uuid);
  }
  std::int64_t bytes() const {
    if (!nvml_) return monitor::resident_bytes();
    const auto memory = gpu_ ? nvml_->memory(*gpu_) : std::nullopt;
    return memory ? memory->used : 0;
  }

 private:
  std::optional<monitor::Nvml> nvml_;
  const monitor::Nvml::Gpu* gpu_ = nullptr;
};

/// Shows the run on rank 0's standard output. Output is not buffered, so that a file can be watched.
class Console final : public monitor::Monitor {
 public:
  explicit Console(const config::Options<ConsoleOptions>& options)
      : screen_(*options, [this] { return memory_.bytes(); }) {}
  void run_started(const monitor::RunStarted& run) override {
    shows_ = run.rank == 0;
    if (shows_) memory_.start(run);
    if (shows_) write(screen_.run_started(run, now_s()));
    begin_ = std::chrono::steady_clock::now();
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    const auto begin = std::exchange(begin_, std::nullopt);  // there only for the first step
    if (shows_ && begin) write(screen_.start_table(seconds_since(*begin)));
    if (shows_) write(screen_.step_ended(step));
    return {};
  }
  void eval_ended(const monitor::EvalEnded& eval) override {
    if (shows_) write(screen_.eval_ended(eval));
  }
  void checkpoint_saved(const monitor::CheckpointSaved& saved) override {
    if (shows_) write(screen_.checkpoint_saved(saved));
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (shows_) write(screen_.run_ended(run, now_s()));
  }

 private:
  void write(const std::string& text) { output_.write(text); }
  Output output_;
  Memory memory_;
  Screen screen_;
  bool shows_ = false;
  std::optional<std::chrono::steady_clock::time_point> begin_;  // the run's, until its first step has ended
};

}  // namespace
}  // namespace console

CAPSTAN_OPENED_BY_DEFAULT
CAPSTAN_MONITOR("console", "1.1", "shows steps, evaluations and summaries on standard output", console::Console,
                console::ConsoleOptions)
