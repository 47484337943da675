#include <capstan/base/files.h>
#include <capstan/monitor/monitor.h>
#include <capstan/testing.h>

#include <cmath>
#include <limits>
#include <set>

#include "testing/breaches.h"
#include "testing/train_rank.h"

namespace capstan::testing {
namespace {

monitor::RunStarted run_of(const Folder& folder, int rank) {
  monitor::RunStarted run;
  run.name = "test";
  run.folder = folder.path().string();
  run.rank = rank;
  run.world_size = 2;
  run.data_parallel_size = 2;
  run.backend = "in-process";
  run.device = "cpu";
  run.hosts = {"host", "host"};
  run.processes = {1, 2};
  run.parameters = run.trainable_parameters = 1000;
  run.steps = 3;
  run.steps_per_epoch = 2;
  run.global_batch = 4;
  run.micro_batch = 2;
  run.accumulation = 1;
  run.precision = "fp32";
  run.sequence_length = 16;
  run.flops_per_token = 6000;
  return run;
}

monitor::StepEnded step_of(std::int64_t step, bool skipped) {
  monitor::StepEnded ended;
  ended.step = step;
  ended.steps = 3;
  ended.epoch_progress = 0.5 * static_cast<double>(step + 1);
  ended.loss = skipped ? std::numeric_limits<double>::quiet_NaN() : 2.5;
  ended.skipped = skipped;
  ended.lr = 1e-3;
  ended.grad_norm = skipped ? std::numeric_limits<double>::infinity() : 1;
  ended.samples = 4;
  ended.consumed_samples = 4 * (step + 1);
  ended.tokens = 40;
  ended.padded_tokens = 64;
  ended.target_tokens = 20;
  ended.step_time_s = 0.25;
  return ended;
}

void check_values(const monitor::Values& values, const std::string& call, Breaches& breaches) {
  std::set<std::string> names;
  for (const auto& [name, value] : values) {
    breaches.unless(!name.empty() && names.insert(name).second, call, " returns the name '", name, "' twice, or none");
    breaches.unless(!std::isinf(value), call, " returns ", value, " as ", name);
  }
}

// A run of some steps, the second of which is skipped.
void run_through(monitor::Monitor& monitor, const Folder& folder, int rank, std::int64_t steps, Breaches& breaches) {
  const auto on = cat(" on rank ", rank, " of a run of ", steps, " steps");
  const auto call = [&](const char* name, const auto& work) { return breaches.result(name + on, work); };
  call("run_started()", [&] { monitor.run_started(run_of(folder, rank)); });
  (void)call("tracer()", [&] { return monitor.tracer() != nullptr; });
  monitor::Values values;
  for (std::int64_t step = 0; step < steps; ++step) {
    auto ended = step_of(step, step == 1);
    ended.values = std::move(values);
    values = call("step_ended()", [&] { return monitor.step_ended(ended); });
    check_values(values, "step_ended()", breaches);
  }
  call("eval_ended()", [&] { monitor.eval_ended({steps, 0.5, "eval", 1.5, 7, 0.1, {{"exact_match", 50}}}); });
  call("checkpoint_saved()", [&] { monitor.checkpoint_saved({steps, folder.path().string(), 1000, 0.1, 0.2, 5000}); });
  monitor::RunEnded ended;
  ended.steps = steps;
  ended.runtime_s = ended.train_runtime_s = 1;
  ended.samples = 4 * steps;
  ended.weights = folder.path().string();
  ended.summary = call("summary()", [&] { return monitor.summary(ended); });
  check_values(ended.summary.values, "summary()", breaches);
  call("run_ended()", [&] { monitor.run_ended(ended); });
}

}  // namespace

std::string monitor_breaches(const std::function<std::shared_ptr<monitor::Monitor>()>& make) {
  Breaches breaches;
  for (const int rank : {0, 1}) {
    for (const std::int64_t steps : {3, 0}) {  // a run that is resumed at its end has no step
      const Folder folder;
      const auto monitor = breaches.result("construction", make);
      if (monitor) run_through(*monitor, folder, rank, steps, breaches);
    }
    const Folder folder;
    if (const auto monitor = breaches.result("construction", make)) {
      breaches.result("run_started()", [&] { monitor->run_started(run_of(folder, rank)); });
      breaches.result("run_failed() before a step", [&] { monitor->run_failed({"no luck", false}); });
    }
  }
  return breaches.text();
}

}  // namespace capstan::testing
