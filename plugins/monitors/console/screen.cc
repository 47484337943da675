#include "screen.h"

#include "lines.h"

namespace console {

using namespace capstan;

void ConsoleOptions::describe(config::OptionTable<ConsoleOptions>& t) {
  t.add("every", &ConsoleOptions::every).min(1).doc("show every N-th step, counted from the first, and the last one");
  t.add("bar", &ConsoleOptions::bar)
      .choices({"auto", "on", "off"})
      .doc("a progress bar instead of a line a step; auto: where the output is a terminal");
}

std::string Screen::run_started(const monitor::RunStarted& run) {
  run_ = run;
  uses_bar_ = options_.bar == "on" || (options_.bar == "auto" && run.output_is_terminal);
  return line(start_lines(run));
}

std::string Screen::step_ended(const monitor::StepEnded& step) {
  const double seconds_per_step = count_step(step);
  const bool last = step.step + 1 == step.steps;
  if (step.step % options_.every != 0 && !last) return {};
  if (!uses_bar_) return line(step_line(step, run_, val_loss_));
  bar_is_shown_ = !last;
  return "\r\033[K" + bar_line(step, seconds_per_step) + (last ? "\n" : "");
}

std::string Screen::eval_ended(const monitor::EvalEnded& eval) {
  if (eval.split != "train" && eval.loss) val_loss_ = eval.loss;
  return line(eval_line(eval));
}

std::string Screen::checkpoint_saved(const monitor::CheckpointSaved& saved) { return line(checkpoint_line(saved)); }

std::string Screen::run_ended(const monitor::RunEnded& run) {
  auto text = line(run_line(run));
  if (!run.weights.empty()) text += line("Weights: " + run.weights);
  if (!run.best.empty()) text += line("Best checkpoint: " + run.best);
  return text;
}

// A line replaces the bar, which the next step draws again below it.
std::string Screen::line(const std::string& text) {
  const bool erase = bar_is_shown_;
  bar_is_shown_ = false;
  return (erase ? "\r\033[K" : "") + text + "\n";
}

// The mean time of a step. The first one is ignored as soon as there is another, since it includes warm-up.
double Screen::count_step(const monitor::StepEnded& step) {
  if (steps_seen_++ == 0) return step.step_time_s;
  seconds_ += step.step_time_s;
  return seconds_ / static_cast<double>(steps_seen_ - 1);
}

}  // namespace console
