#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace train_speed {

struct SpeedOptions {
  std::int64_t warmup = 1;
  double peak_tflops = 0;

  static void describe(capstan::config::OptionTable<SpeedOptions>& t) {
    t.add("warmup", &SpeedOptions::warmup).min(0).doc("first steps that are not counted: they warm everything up");
    t.add("peak_tflops", &SpeedOptions::peak_tflops)
        .min(0)
        .doc("the GPU's 10^12 floating-point operations a second, which MFU is divided by; 0: its data sheet's");
  }
};

/// Floating-point operations a second that NVIDIA's data sheets give for dense matrix products of this precision
/// ("bf16", "fp16", "bf16_pure": 16-bit tensor cores; "fp32": without TF32), in units of 10^12. Nothing for GPUs that
/// are not listed, and for precisions that they lack. `gpu`: as NVML names it, "NVIDIA H200".
std::optional<double> peak_tflops(const std::string& gpu, const std::string& precision);

/// Throughput of the training steps. "Per rank" is a world's number divided by its ranks, one rank a GPU.
class Speed {
 public:
  explicit Speed(const SpeedOptions& options) : options_(options) {}
  /// `gpu`: as NVML names it; empty: none.
  void run_started(const capstan::monitor::RunStarted& run, const std::string& gpu = {});

  /// This step's rates, in units a second: train/samples_per_second, train/steps_per_second, and of tokens
  /// train/tokens_per_second (real ones), train/padded_tokens_per_second (all positions computed),
  /// train/target_tokens_per_second (those that bear loss); samples and real tokens also with _per_rank.
  /// None for the first `warmup` steps that this process sees.
  capstan::monitor::Values step_ended(const capstan::monitor::StepEnded& step);

  /// What summary.json gets. Of the counted steps together: train/samples_per_second_mean, steps, tokens, and
  /// samples and tokens _per_rank_mean. Of the whole run: train_samples_per_second, train_steps_per_second. With a
  /// known peak mfu and mfu_peak_tflops, and in words mfu_formula.
  capstan::monitor::Summary summary_entries(const capstan::monitor::RunEnded& run) const;

  /// The summary's lines. "default" divides by the whole run's time, evaluation and saving included; "callback" by the
  /// time of the counted training steps.
  std::string summary(const capstan::monitor::RunEnded& run) const;

 private:
  struct Sums {
    std::int64_t steps = 0;
    std::int64_t samples = 0;
    std::int64_t tokens = 0;
    std::int64_t padded_tokens = 0;
    std::int64_t target_tokens = 0;
    double seconds = 0;
  };
  double mfu() const;
  std::string mfu_line() const;

  SpeedOptions options_;
  int ranks_ = 1;
  double flops_per_token_ = 0;
  double head_flops_per_token_ = 0;  ///< among them, those only of positions that bear loss
  double peak_tflops_ = 0;           ///< a rank's GPU's; 0: not known
  std::string peak_from_;
  std::int64_t steps_seen_ = 0;
  Sums counted_;
};

}  // namespace train_speed
