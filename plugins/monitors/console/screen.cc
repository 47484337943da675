#include "screen.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace console {

using namespace capstan;

std::string Screen::run_started(const monitor::RunStarted& run, double time) {
  run_ = run;
  uses_bar_ = options_.bar == "on" || (options_.bar == "auto" && run.output_is_terminal);
  const bool by_job_script = run.environment && run.environment("SLURM_JOB_ID");
  shows_job_ = nemo() && !by_job_script;
  std::string text;
  if (shows_job_) text += line(job_started(time));
  if (nemo()) text += line(arguments_table(run.settings));
  return text + line(start_line(run));
}

std::string Screen::start_table(double seconds) {
  return options_.start_table ? line(console::start_table(run_.start_s, seconds)) : "";
}

std::string Screen::step_ended(const monitor::StepEnded& step) {
  count_step(step);
  const bool last = step.step + 1 == step.steps;
  if (last) {
    last_ = step;
    return {};
  }
  if (!is_due(step)) return {};
  if (!uses_bar_) return line(step_text(step));
  bar_is_shown_ = true;
  return cat("\r\033[K\033[?7l", bar_text(step), "\033[?7h");  // cut where the terminal is narrow, not wrapped
}

// The last one always is, and comes later.
bool Screen::is_due(const monitor::StepEnded& step) const {
  const bool is_own_style = !nemo() && !hf();
  if (steps_seen_ == 1) return true;
  if (!is_own_style) return step.step % std::max<std::int64_t>(1, options_.every) == 0;
  if (options_.every > 0) return (step.step + 1) % options_.every == 0;
  constexpr double seconds_a_line = 1;
  constexpr std::int64_t most_lines = 100;
  if (run_.output_is_terminal) return since_.seconds >= seconds_a_line;
  return (step.step + 1) % std::max<std::int64_t>(1, (run_.steps + most_lines - 1) / most_lines) == 0;
}

// The line of the last step, once; after the bar, which ends with it.
std::string Screen::held_line() {
  if (!last_) return {};
  const auto step = *last_;
  last_.reset();
  if (!uses_bar_ && !hf()) return line(step_text(step));
  const auto bar = line(bar_text(step));
  return hf() && !uses_bar_ ? line(step_text(step)) + bar : bar;
}

std::string Screen::step_text(const monitor::StepEnded& step) {
  if (nemo()) return step_line(step, run_, val_loss_);
  if (!hf()) return progress_line(step, progress_to(step));
  const double loss = losses_ / static_cast<double>(std::max<std::int64_t>(1, losses_of_));
  losses_ = 0;
  losses_of_ = 0;
  return hf_step_line(step, loss);
}

std::string Screen::bar_text(const monitor::StepEnded& step) {
  if (hf()) return tqdm_line(step.step + 1, step.steps, first_seconds_ + seconds_);
  return bar_line(step, progress_to(step));
}

// What was done since the last line, which counts from here again.
Progress Screen::progress_to(const monitor::StepEnded& step) {
  auto progress = std::exchange(since_, {});
  progress.seconds_left = static_cast<double>(step.steps - step.step - 1) * seconds_each();
  if (memory_) progress.memory = memory_();
  return progress;
}

// Without the first as soon as there is another, since it includes warm-up.
double Screen::seconds_each() const {
  return steps_seen_ < 2 ? first_seconds_ : seconds_ / static_cast<double>(steps_seen_ - 1);
}

std::string Screen::eval_ended(const monitor::EvalEnded& eval) {
  if (eval.split != "train" && eval.loss) val_loss_ = eval.loss;
  auto text = held_line();
  if (!nemo() || !eval.scores.empty()) text += line(eval_line(eval));
  return text;
}

std::string Screen::checkpoint_saved(const monitor::CheckpointSaved& saved) { return line(checkpoint_line(saved)); }

std::string Screen::run_ended(const monitor::RunEnded& run, double time) {
  auto text = held_line();
  if (!nemo()) text += line(run_line(run));
  if (!run.weights.empty()) text += line("Weights: " + run.weights);
  if (!run.best.empty()) text += line("Best checkpoint: " + run.best);
  if (shows_job_) text += line(job_finished(time, run.runtime_s));
  return text;
}

// A line replaces the bar, which the next step draws again below it.
std::string Screen::line(const std::string& text) {
  const bool erase = bar_is_shown_;
  bar_is_shown_ = false;
  return (erase ? "\r\033[K" : "") + text + "\n";
}

void Screen::count_step(const monitor::StepEnded& step) {
  since_.seconds += step.step_time_s;
  since_.tokens += step.tokens;
  since_.samples += step.samples;
  losses_ += step.loss;
  ++losses_of_;
  if (steps_seen_++ == 0) {
    first_seconds_ = step.step_time_s;
  } else {
    seconds_ += step.step_time_s;
  }
}

}  // namespace console
