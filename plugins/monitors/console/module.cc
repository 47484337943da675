#include "screen.h"

#include <capstan/base/clock.h>
#include <capstan/base/output.h>
#include <capstan/monitor.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace console {
namespace {

using namespace capstan;

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Shows the run on rank 0's standard output. Output is not buffered, so that a file can be watched.
class Console final : public monitor::Monitor {
 public:
  explicit Console(const config::Options<ConsoleOptions>& options) : screen_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    shows_ = run.rank == 0;
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
  Screen screen_;
  bool shows_ = false;
  std::optional<std::chrono::steady_clock::time_point> begin_;  // the run's, until its first step has ended
};

}  // namespace
}  // namespace console

CAPSTAN_MONITOR("console", "1.0", "shows steps, evaluations and summaries on standard output", console::Console,
                console::ConsoleOptions)
