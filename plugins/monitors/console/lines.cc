#include "lines.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "blocks.h"

namespace console {

using namespace capstan;

namespace {

std::string format(const char* pattern, double number) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), pattern, number);
  return out.data();
}

// Four significant digits, as NeMo prints: 1.961e-06, 0.194, 7.126.
std::string significant(double number) { return format("%.4g", number); }

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0.0; }

double rate(std::int64_t amount, double seconds) { return rate(static_cast<double>(amount), seconds); }

}  // namespace

std::string python_rounded(double number, int digits) {
  if (!std::isfinite(number)) return format("%f", number);
  std::array<char, 400> out{};
  std::snprintf(out.data(), out.size(), "%.*f", digits, number);
  std::string text = out.data();
  const auto last = text.find_last_not_of('0');
  text.erase(text[last] == '.' ? last + 2 : last + 1);
  return text;
}

std::string start_lines(const monitor::RunStarted& run) {
  const auto hosts = std::set<std::string>(run.hosts.begin(), run.hosts.end()).size();
  auto text = cat("Run ", run.name, ": ", counted(run.world_size, "rank"));
  if (hosts > 1) text += cat(" on ", hosts, " hosts");
  text += cat(", device ", run.device, ", backend ", run.backend, "\n");
  text += cat("Steps: ", thousands(run.steps_per_epoch), " per epoch, ", thousands(run.steps), " in all");
  if (run.first_step > 0) text += cat(", ", thousands(run.first_step), " done before");
  return text;
}

std::string step_line(const monitor::StepEnded& step, const monitor::RunStarted& run, std::optional<double> val_loss) {
  const auto epoch_start = step.epoch * run.steps_per_epoch;
  const auto last = std::min(run.steps_per_epoch, step.steps - epoch_start) - 1;
  auto text = cat("Training epoch ", step.epoch, ", iteration ", step.step - epoch_start, "/", last,
                  " | lr: ", significant(step.lr), " | global_batch_size: ", run.global_batch,
                  " | global_step: ", step.step, " | reduced_train_loss: ", significant(step.loss),
                  " | train_step_timing in s: ", significant(step.step_time_s));
  if (step.step > 0) text += cat(" | consumed_samples: ", step.consumed_samples);
  text += utilisation_text(step.values);
  if (val_loss) text += " | val_loss: " + significant(*val_loss);
  return text;
}

std::string eval_line(const monitor::EvalEnded& eval) {
  const std::string prefix = eval.split == "train" ? "'eval_train_" : "'eval_";
  std::string text = "{";
  if (eval.loss) text += cat(prefix, "loss': ", format("%.4f", *eval.loss), ", ");
  text += cat(prefix, "runtime': ", format("%.4f", eval.runtime_s), ", ", prefix,
              "samples_per_second': ", python_rounded(rate(eval.samples, eval.runtime_s), 3));
  for (const auto& [name, value] : eval.scores) text += cat(", ", prefix, name, "': ", python_rounded(value, 4));
  return text + ", 'epoch': " + python_rounded(eval.epoch_progress, 2) + "}";
}

std::string checkpoint_line(const monitor::CheckpointSaved& saved) {
  return cat("Checkpoint after step ", saved.step, ": ", bytes_text(static_cast<double>(saved.bytes)),
             ", training waited ", significant(saved.stall_s), " s, written in ", significant(saved.write_s), " s (",
             significant(saved.bytes_per_second / 1e9), " GB/s): ", saved.path);
}

std::string run_line(const monitor::RunEnded& run) {
  return cat("{'train_runtime': ", format("%.4f", run.runtime_s),
             ", 'train_samples_per_second': ", python_rounded(rate(run.samples, run.runtime_s), 3),
             ", 'train_steps_per_second': ", python_rounded(rate(run.steps, run.runtime_s), 3),
             ", 'train_loss': ", format("%.4f", run.mean_loss), ", 'epoch': ", python_rounded(run.epochs, 2), "}");
}

std::string bar_line(const monitor::StepEnded& step, double seconds_per_step) {
  constexpr std::int64_t width = 20;
  const auto done = step.step + 1;
  const auto filled = static_cast<std::size_t>(done * width / step.steps);
  const auto bar = std::string(filled, '#') + std::string(width - filled, '-');
  return cat("step ", done, "/", step.steps, " [", bar, "] ",
             format("%3.0f", std::floor(100.0 * static_cast<double>(done) / static_cast<double>(step.steps))),
             "% | epoch ", format("%.2f", step.epoch_progress), " | loss ", significant(step.loss), " | ",
             format("%.1f", rate(step.samples, seconds_per_step)), " samples/s | ETA ",
             duration_text(static_cast<double>(step.steps - done) * seconds_per_step), utilisation_text(step.values));
}

}  // namespace console
