#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "lines.h"

namespace console {

struct ConsoleOptions {
  std::int64_t every = 0;
  std::string bar = "auto";
  std::string style = "capstan";
  bool start_table = false;

  static void describe(capstan::config::OptionTable<ConsoleOptions>& t) {
    t.add("every", &ConsoleOptions::every)
        .min(0)
        .doc(
            "show every N-th step, and always the first and the last; 0: in style capstan one a second on a terminal, "
            "and else as many as make a hundred lines or less of a run; in the other styles each");
    t.add("bar", &ConsoleOptions::bar)
        .choices({"auto", "on", "off"})
        .doc("a progress bar, drawn over itself, instead of lines; auto: where the output is a terminal");
    t.add("style", &ConsoleOptions::style)
        .choices({"capstan", "nemo", "hf"})
        .doc(
            "whose lines: nemo: a table of resolved arguments, NeMo's steps with val_loss, the block of a job; hf: the "
            "Trainer's dictionaries and tqdm's bar; capstan: a short line a step with loss, rate, time left and "
            "memory, "
            "the Trainer's summaries");
    t.add("start_table", &ConsoleOptions::start_table)
        .doc("show at the first step what the time from the command to its end went to, on rank 0");
  }
};

/// The output for each event: each function returns the bytes to write, line ends and the bar's control characters
/// included. The last step's line waits for what follows, so that it has the val_loss of an evaluation that is due
/// then.
class Screen {
 public:
  /// `memory`: bytes that this rank holds, asked for each line that shows it; 0: not known.
  explicit Screen(const ConsoleOptions& options, std::function<std::int64_t()> memory = {})
      : options_(options), memory_(std::move(memory)) {}
  /// `time`: now, seconds since 1970.
  std::string run_started(const capstan::monitor::RunStarted& run, double time);
  /// Before the first step's line, where it is asked for. `seconds`: since the run's start.
  std::string start_table(double seconds);
  std::string step_ended(const capstan::monitor::StepEnded& step);
  std::string eval_ended(const capstan::monitor::EvalEnded& eval);
  std::string checkpoint_saved(const capstan::monitor::CheckpointSaved& saved);
  std::string run_ended(const capstan::monitor::RunEnded& run, double time);

 private:
  bool nemo() const { return options_.style == "nemo"; }
  bool hf() const { return options_.style == "hf"; }
  std::string line(const std::string& text);
  std::string step_text(const capstan::monitor::StepEnded& step);
  std::string bar_text(const capstan::monitor::StepEnded& step);
  Progress progress_to(const capstan::monitor::StepEnded& step);
  double seconds_each() const;
  bool is_due(const capstan::monitor::StepEnded& step) const;
  std::string held_line();
  void count_step(const capstan::monitor::StepEnded& step);

  ConsoleOptions options_;
  std::function<std::int64_t()> memory_;
  capstan::monitor::RunStarted run_;
  bool uses_bar_ = false;
  bool bar_is_shown_ = false;                        // the cursor is after it
  bool shows_job_ = false;                           // the block of a job: the job's script does not write it
  std::optional<capstan::monitor::StepEnded> last_;  // its line is not written yet
  std::optional<double> val_loss_;
  std::int64_t steps_seen_ = 0;
  double seconds_ = 0;        // what the steps seen took, except the first
  double first_seconds_ = 0;  // what the first one took
  Progress since_;            // of the steps since the last line
  double losses_ = 0;         // sum over them
  std::int64_t losses_of_ = 0;
};

}  // namespace console
