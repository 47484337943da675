#include "plugins/monitors/train_speed/speed.h"

#include <capstan_catch.h>

using namespace capstan::monitor;
using namespace train_speed;

namespace {

StepEnded step(double seconds) {
  StepEnded step;
  step.samples = 16;
  step.tokens = 800;
  step.padded_tokens = 1000;
  step.target_tokens = 40;
  step.step_time_s = seconds;
  return step;
}

RunEnded run_end(std::int64_t steps, double runtime) {
  RunEnded end;
  end.steps = steps;
  end.runtime_s = runtime;
  end.samples = 16 * steps;
  end.tokens = 800 * steps;
  return end;
}

Speed speed_on_four_ranks(std::int64_t warmup) {
  Speed speed({warmup});
  RunStarted run;
  run.world_size = 4;
  speed.run_started(run);
  return speed;
}

}  // namespace

TEST_CASE("a step's rates are of the world, and per rank where that says something") {
  auto speed = speed_on_four_ranks(0);
  const Values expected{{"train/samples_per_second", 8},          {"train/steps_per_second", 0.5},
                        {"train/tokens_per_second", 400},         {"train/padded_tokens_per_second", 500},
                        {"train/target_tokens_per_second", 20},   {"train/samples_per_second_per_rank", 2},
                        {"train/tokens_per_second_per_rank", 100}};
  CHECK(speed.step_ended(step(2)) == expected);
}

TEST_CASE("warm-up steps have no rates and are not counted") {
  auto speed = speed_on_four_ranks(2);
  CHECK(speed.step_ended(step(50)).empty());
  CHECK(speed.step_ended(step(50)).empty());
  CHECK(speed.step_ended(step(1)).size() == 7);
  CHECK(speed.step_ended(step(3)).size() == 7);
  // callback: 32 samples and 2 steps in 4 s; default: 64 samples and 4 steps in 128 s.
  CHECK(speed.summary(run_end(4, 128)) ==
        "throughput  samples/s  per rank  steps/s  tokens/s  per rank  seconds  counted\n"
        "default     0.500      0.125     0.031    25.0      6.2       128.00   steps: 4, evaluation and saving too\n"
        "callback    8.000      2.000     0.500    400.0     100.0     4.00     steps: 2, after 2 of warm-up\n"
        "callback tokens/s: 400.0 real, 500.0 with padding, 20.0 bearing loss\n");
}

TEST_CASE("the default counts one warm-up step") {
  Speed speed({});
  CHECK(speed.step_ended(step(1)).empty());
  CHECK_FALSE(speed.step_ended(step(1)).empty());
}

TEST_CASE("a run that is all warm-up says so") {
  auto speed = speed_on_four_ranks(5);
  speed.step_ended(step(1));
  CHECK(speed.summary(run_end(1, 2)) ==
        "throughput  samples/s  per rank  steps/s  tokens/s  per rank  seconds  counted\n"
        "default     8.000      2.000     0.500    400.0     100.0     2.00     steps: 1, evaluation and saving too\n"
        "callback: no step was counted, the first 5 are its warm-up\n");
  auto one = speed_on_four_ranks(1);
  one.step_ended(step(1));
  CHECK_THAT(one.summary(run_end(1, 2)), Contains("no step was counted, the first is its warm-up\n"));
}

TEST_CASE("the whole run's means, and the counted steps', go into the summary") {
  auto speed = speed_on_four_ranks(2);
  for (const double seconds : {50.0, 50.0, 1.0, 3.0}) speed.step_ended(step(seconds));
  const Values expected{{"train_samples_per_second", 0.5},
                        {"train_steps_per_second", 4.0 / 128},
                        {"train/samples_per_second_mean", 8},
                        {"train/steps_per_second_mean", 0.5},
                        {"train/tokens_per_second_mean", 400},
                        {"train/samples_per_second_per_rank_mean", 2},
                        {"train/tokens_per_second_per_rank_mean", 100}};
  CHECK(speed.summary_entries(run_end(4, 128)).values == expected);
  CHECK(speed.summary_entries(run_end(4, 128)).texts.empty());
}

TEST_CASE("MFU is of all positions computed, of one rank, of the peak that is named") {
  RunStarted run;
  run.world_size = 4;
  run.precision = "bf16";
  run.flops_per_token = 2e12;
  Speed speed({.warmup = 0});
  speed.run_started(run, "NVIDIA H200");
  speed.step_ended(step(2));  // 1000 positions in 2 s: 125 a second and rank, 250 TFLOP/s
  const auto entries = speed.summary_entries(run_end(1, 2));
  CHECK(entries.values.at(7).first == "mfu");
  CHECK(entries.values.at(7).second == Approx(250 / 989.4));
  CHECK(entries.values.at(8) == std::pair<std::string, double>("mfu_peak_tflops", 989.4));
  CHECK_THAT(entries.texts.at(0).second, Contains("dense bf16 of NVIDIA H200"));
  CHECK_THAT(speed.summary(run_end(1, 2)), Contains("MFU: 25.3 % of 989.4 TFLOP/s"));

  Speed told({.warmup = 0, .peak_tflops = 500});
  told.run_started(run, "");
  told.step_ended(step(2));
  CHECK(told.summary_entries(run_end(1, 2)).values.at(7).second == Approx(0.5));
}

TEST_CASE("MFU counts only logits of positions that bear loss: no others are computed") {
  RunStarted run;
  run.world_size = 4;
  run.flops_per_token = 2e12;
  run.head_flops_per_token = 1e12;
  Speed speed({.warmup = 0, .peak_tflops = 500});
  speed.run_started(run);
  speed.step_ended(step(2));  // a second and rank: 125 positions, 5 of them with loss
  const auto entries = speed.summary_entries(run_end(1, 2));
  CHECK(entries.values.at(7).second == Approx(130.0 / 500));
  CHECK(entries.texts.at(0).second ==
        "positions a second and rank (padding included) x 1e+12 operations of forward and backward a position + "
        "positions that bear loss x 1e+12 operations for logits / (500 x 10^12, monitor.train_speed.peak_tflops)");
}

TEST_CASE("peaks are known by the names that NVML gives") {
  CHECK(peak_tflops("NVIDIA H100 80GB HBM3", "bf16") == 989.4);
  CHECK(peak_tflops("NVIDIA H100 PCIe", "fp16") == 756);
  CHECK(peak_tflops("NVIDIA A100-SXM4-80GB", "bf16_pure") == 311.9);
  CHECK(peak_tflops("NVIDIA A100-SXM4-80GB", "fp32") == 19.5);
  CHECK(peak_tflops("Tesla V100-SXM2-32GB", "fp16") == 125);
  CHECK_FALSE(peak_tflops("Tesla V100-SXM2-32GB", "bf16"));
  CHECK_FALSE(peak_tflops("", "bf16"));
  CHECK_FALSE(peak_tflops("NVIDIA H200", "fp64"));
}

TEST_CASE("a clock that did not move gives no rate") {
  auto speed = speed_on_four_ranks(0);
  CHECK(speed.step_ended(step(0)).empty());
}
