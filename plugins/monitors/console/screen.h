#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace console {

struct ConsoleOptions {
  std::int64_t every = 1;
  std::string bar = "auto";

  static void describe(capstan::config::OptionTable<ConsoleOptions>& t);
};

/// The output for each event: each function returns the bytes to write, line ends and the bar's control characters
/// included.
class Screen {
 public:
  explicit Screen(const ConsoleOptions& options) : options_(options) {}
  std::string run_started(const capstan::monitor::RunStarted& run);
  std::string step_ended(const capstan::monitor::StepEnded& step);
  std::string eval_ended(const capstan::monitor::EvalEnded& eval);
  std::string checkpoint_saved(const capstan::monitor::CheckpointSaved& saved);
  std::string run_ended(const capstan::monitor::RunEnded& run);

 private:
  std::string line(const std::string& text);
  double count_step(const capstan::monitor::StepEnded& step);

  ConsoleOptions options_;
  capstan::monitor::RunStarted run_;
  bool uses_bar_ = false;
  bool bar_is_shown_ = false;  // the cursor is after it
  std::optional<double> val_loss_;
  std::int64_t steps_seen_ = 0;
  double seconds_ = 0;  // of the steps seen except the first
};

}  // namespace console
