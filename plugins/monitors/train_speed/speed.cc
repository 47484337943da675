#include "speed.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "peak.h"

namespace train_speed {

using namespace capstan;

namespace {

double per_second(std::int64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0.0;
}

std::string fixed(const char* pattern, double number) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), pattern, number);
  return out.data();
}

std::vector<std::string> row(const char* name, std::int64_t samples, std::int64_t steps, std::int64_t tokens,
                             double seconds, int ranks, std::string counted) {
  const double samples_rate = per_second(samples, seconds);
  const double tokens_rate = per_second(tokens, seconds);
  return {name,
          fixed("%.3f", samples_rate),
          fixed("%.3f", samples_rate / ranks),
          fixed("%.3f", per_second(steps, seconds)),
          fixed("%.1f", tokens_rate),
          fixed("%.1f", tokens_rate / ranks),
          fixed("%.2f", seconds),
          std::move(counted)};
}

}  // namespace

void SpeedOptions::describe(config::OptionTable<SpeedOptions>& t) {
  t.add("warmup", &SpeedOptions::warmup).min(0).doc("first steps that are not counted: they warm everything up");
  t.add("peak_tflops", &SpeedOptions::peak_tflops)
      .min(0)
      .doc("the GPU's 10^12 floating-point operations a second, which MFU is divided by; 0: its data sheet's");
}

void Speed::run_started(const monitor::RunStarted& run, const std::string& gpu) {
  ranks_ = run.world_size;
  flops_per_token_ = run.flops_per_token;
  head_flops_per_token_ = run.head_flops_per_token;
  if (options_.peak_tflops > 0) {
    peak_tflops_ = options_.peak_tflops;
    peak_from_ = "monitor.train_speed.peak_tflops";
  } else if (const auto peak = peak_tflops(gpu, run.precision)) {
    peak_tflops_ = *peak;
    peak_from_ = cat("dense ", run.precision, " of ", gpu);
  }
}

double Speed::mfu() const {
  const double positions = per_second(counted_.padded_tokens, counted_.seconds) / ranks_;
  const double targets = per_second(counted_.target_tokens, counted_.seconds) / ranks_;
  const double operations = (flops_per_token_ - head_flops_per_token_) * positions + head_flops_per_token_ * targets;
  return operations / (peak_tflops_ * 1e12);
}

monitor::Summary Speed::summary_entries(const monitor::RunEnded& run) const {
  monitor::Summary all;
  all.values = {{"train_samples_per_second", per_second(run.samples, run.runtime_s)},
                {"train_steps_per_second", per_second(run.steps, run.runtime_s)}};
  if (counted_.steps == 0) return all;
  const double samples = per_second(counted_.samples, counted_.seconds);
  const double tokens = per_second(counted_.tokens, counted_.seconds);
  const monitor::Values means{{"train/samples_per_second_mean", samples},
                              {"train/steps_per_second_mean", per_second(counted_.steps, counted_.seconds)},
                              {"train/tokens_per_second_mean", tokens},
                              {"train/samples_per_second_per_rank_mean", samples / ranks_},
                              {"train/tokens_per_second_per_rank_mean", tokens / ranks_}};
  all.values.insert(all.values.end(), means.begin(), means.end());
  if (peak_tflops_ <= 0 || flops_per_token_ <= 0) return all;
  all.values.emplace_back("mfu", mfu());
  all.values.emplace_back("mfu_peak_tflops", peak_tflops_);
  all.texts.emplace_back(
      "mfu_formula",
      cat("positions a second and rank (padding included) x ", number_text(flops_per_token_ - head_flops_per_token_),
          " operations of forward and backward a position + positions that bear loss x ",
          number_text(head_flops_per_token_), " operations for logits / (", peak_tflops_, " x 10^12, ", peak_from_,
          ")"));
  return all;
}

monitor::Values Speed::step_ended(const monitor::StepEnded& step) {
  if (steps_seen_++ < options_.warmup || step.step_time_s <= 0) return {};
  ++counted_.steps;
  counted_.samples += step.samples;
  counted_.tokens += step.tokens;
  counted_.padded_tokens += step.padded_tokens;
  counted_.target_tokens += step.target_tokens;
  counted_.seconds += step.step_time_s;
  const double samples = per_second(step.samples, step.step_time_s);
  const double tokens = per_second(step.tokens, step.step_time_s);
  return {{"train/samples_per_second", samples},
          {"train/steps_per_second", per_second(1, step.step_time_s)},
          {"train/tokens_per_second", tokens},
          {"train/padded_tokens_per_second", per_second(step.padded_tokens, step.step_time_s)},
          {"train/target_tokens_per_second", per_second(step.target_tokens, step.step_time_s)},
          {"train/samples_per_second_per_rank", samples / ranks_},
          {"train/tokens_per_second_per_rank", tokens / ranks_}};
}

std::string Speed::summary(const monitor::RunEnded& run) const {
  std::vector<std::vector<std::string>> rows{
      {"throughput", "samples/s", "per rank", "steps/s", "tokens/s", "per rank", "seconds", "counted"}};
  rows.push_back(row("default", run.samples, run.steps, run.tokens, run.runtime_s, ranks_,
                     cat("steps: ", thousands(run.steps), ", evaluation and saving too")));
  if (counted_.steps == 0) {
    return table_text(rows) + cat("callback: no step was counted, the first ",
                                  plural(options_.warmup, "is", cat(options_.warmup, " are")), " its warm-up\n");
  }
  rows.push_back(row("callback", counted_.samples, counted_.steps, counted_.tokens, counted_.seconds, ranks_,
                     cat("steps: ", thousands(counted_.steps), ", after ", options_.warmup, " of warm-up")));
  return table_text(rows) +
         "callback tokens/s: " + fixed("%.1f real, ", per_second(counted_.tokens, counted_.seconds)) +
         fixed("%.1f with padding, ", per_second(counted_.padded_tokens, counted_.seconds)) +
         fixed("%.1f bearing loss\n", per_second(counted_.target_tokens, counted_.seconds)) + mfu_line();
}

std::string Speed::mfu_line() const {
  if (peak_tflops_ <= 0 || flops_per_token_ <= 0) return {};
  return cat("MFU: ", fixed("%.1f", 100 * mfu()), " % of ", fixed("%g", peak_tflops_), " TFLOP/s (", peak_from_, ")\n");
}

}  // namespace train_speed
