#include "speed.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "runs/numbers.h"

namespace train_speed {

using namespace capstan;
using runs::fixed;

namespace {

struct Peak {
  std::string_view name;  // a part of NVML's
  double half;            // fp16 on tensor cores
  double single;
  bool bf16 = true;
};

// The first that fits counts: longer names come before shorter ones.
constexpr std::array peaks{Peak{"GB200", 2500, 80},        Peak{"B200", 2250, 75},    Peak{"GH200", 989.4, 66.9},
                           Peak{"H200 NVL", 835.5, 60},    Peak{"H200", 989.4, 66.9}, Peak{"H100 PCIe", 756, 51.2},
                           Peak{"H100 NVL", 835.5, 60},    Peak{"H100", 989.4, 66.9}, Peak{"H800", 989.4, 66.9},
                           Peak{"A100", 311.9, 19.5},      Peak{"A800", 311.9, 19.5}, Peak{"A30", 165, 10.3},
                           Peak{"L40S", 362, 91.6},        Peak{"L40", 181, 90.5},    Peak{"A40", 149.7, 37.4},
                           Peak{"RTX A6000", 154.8, 38.7}, Peak{"A10", 125, 31.2},    Peak{"L4", 121, 30.3},
                           Peak{"V100", 125, 15.7, false}, Peak{"T4", 65, 8.1, false}};

double per_second(std::int64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0.0;
}

std::vector<std::string> row(const char* name, std::int64_t samples, std::int64_t steps, std::int64_t tokens,
                             double seconds, int ranks, std::string counted) {
  const double samples_rate = per_second(samples, seconds);
  const double tokens_rate = per_second(tokens, seconds);
  return {name,
          fixed(samples_rate, 3),
          fixed(samples_rate / ranks, 3),
          fixed(per_second(steps, seconds), 3),
          fixed(tokens_rate, 1),
          fixed(tokens_rate / ranks, 1),
          fixed(seconds, 2),
          std::move(counted)};
}

}  // namespace

std::optional<double> peak_tflops(const std::string& gpu, const std::string& precision) {
  const auto* found = std::find_if(peaks.begin(), peaks.end(),
                                   [&](const Peak& peak) { return gpu.find(peak.name) != std::string::npos; });
  if (found == peaks.end()) return {};
  if (precision == "fp32") return found->single;
  if (precision == "fp16" || (precision.starts_with("bf16") && found->bf16)) return found->half;
  return {};
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
  const auto rate = [this](std::int64_t tokens) { return fixed(per_second(tokens, counted_.seconds), 1); };
  return cat(table_text(rows), "callback tokens/s: ", rate(counted_.tokens), " real, ", rate(counted_.padded_tokens),
             " with padding, ", rate(counted_.target_tokens), " bearing loss\n", mfu_line());
}

std::string Speed::mfu_line() const {
  if (peak_tflops_ <= 0 || flops_per_token_ <= 0) return {};
  return cat("MFU: ", fixed(100 * mfu(), 1), " % of ", peak_tflops_, " TFLOP/s (", peak_from_, ")\n");
}

}  // namespace train_speed
