#pragma once
// Runs and their events as a monitor gets them.
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace console_test {

using capstan::config::Origin;
using capstan::monitor::EvalEnded;
using capstan::monitor::RunStarted;
using capstan::monitor::Setting;
using capstan::monitor::StepEnded;

/// The workshop's NeMo run: 250 steps of a global batch of 8 within one epoch of SQuAD.
inline RunStarted workshop_run() {
  RunStarted run;
  run.name = "llama-lora";
  run.folder = "runs/llama-lora";
  run.world_size = 2;
  run.data_parallel_size = 2;
  run.device = "cuda";
  run.backend = "nccl";
  run.hosts = {"gpu1", "gpu1"};
  run.parameters = 8049135616;
  run.trainable_parameters = 18874368;
  run.steps = 250;
  run.steps_per_epoch = 10949;
  run.global_batch = 8;
  run.micro_batch = 1;
  run.accumulation = 4;
  return run;
}

/// A step of it.
inline StepEnded step(std::int64_t number, double lr, double loss, double seconds) {
  StepEnded step;
  step.step = number;
  step.steps = 250;
  step.lr = lr;
  step.loss = loss;
  step.step_time_s = seconds;
  step.samples = 8;
  step.consumed_samples = 8 * (number + 1);
  step.epoch_progress = static_cast<double>(number + 1) / 250;
  return step;
}

inline EvalEnded evaluation(double loss, double runtime, double epoch) {
  EvalEnded eval;
  eval.split = "eval";
  eval.loss = loss;
  eval.runtime_s = runtime;
  eval.samples = 50;
  eval.epoch_progress = epoch;
  return eval;
}

inline Origin from_file() { return {Origin::Layer::file, "a.toml", 3}; }

inline std::vector<Setting> settings() {
  return {{"data", "plugin", std::string("squad"), from_file()},
          {"data", "max_length", std::int64_t{512}, from_file()},
          {"data", "packing", false, {}},
          {"strategy.fsdp", "mode", std::string("full_shard"), from_file()},
          {"comm", "timeout_s", 600.0, {}}};
}

/// A run of four steps with these settings, and a step of it.
inline RunStarted small_run() {
  RunStarted run;
  run.name = "a";
  run.steps = 4;
  run.steps_per_epoch = 4;
  run.settings = settings();
  return run;
}

inline StepEnded step(std::int64_t number, double loss) {
  StepEnded step;
  step.step = number;
  step.steps = 4;
  step.loss = loss;
  step.lr = 4.9e-05;
  step.grad_norm = 1.25;
  step.epoch_progress = 0.325;
  step.step_time_s = 2;
  step.samples = 8;
  return step;
}

}  // namespace console_test
