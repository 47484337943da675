#include "commands/run_extensions.h"

#include <capstan/base/text.h>

#include <utility>

#include "commands/check_command.h"
#include "observe/memory.h"
#include "plan/against_actual.h"
#include "plan/gpu_fit.h"
#include "plan/step_time.h"

namespace capstan::commands {
namespace {

session::Job job_of(const setup::JobRequest& request, plugin::Host& host) {
  Diagnostics faults;
  auto job = session::prepare(request, host, faults);
  faults.throw_if_any();
  return std::move(*job);
}

std::vector<monitor::MemorySaving> savings(setup::JobRequest request, plugin::Host& host) {
  if (request.device == "cpu") {
    request.device = "cuda";
    request.overrides.emplace_back("run.device=auto");
  }
  request.any_host_memory = true;
  const auto job = job_of(request, host);
  const auto batch = job.topology.batch;
  const plan::Trials trials{plan::offers_of(host), [&](const plan::Change& change) {
                              return peak_with(request, change, batch.global_batch, host);
                            }};
  const auto peak = layout::total_bytes(job.prediction.footprints, job.config.device);
  std::vector<monitor::MemorySaving> list;
  for (const auto& [change, with] : plan::what_saves_most(batch, peak, trials))
    list.push_back({change.words, join(change.overrides, " "), with.gpu});
  return list;
}

// What was predicted for this request, and what would save most: on a CPU rank what a GPU would save. At the run's end
// the prediction against what was measured.
class Predictions final : public command::RunExtension {
 public:
  Predictions(const session::Job& job, const ranks::Rank& rank, plugin::Host& host)
      : job_(job), rank_(rank), host_(host) {}

  void answer(monitor::MemoryQuestions& questions) override {
    auto asked = job_.config.request;
    asked.activations = true;
    questions.predicted = [asked, this] { return observe::memory_parts(job_of(asked, host_).prediction.footprints); };
    questions.savings = [asked, this] { return savings(asked, host_); };
  }

  std::string after_training(const command::TrainedRun& run) override {
    const auto& gpu = rank_.device.gpu;
    const auto figures = plan::figures_of_device(gpu.description, gpu.bytes);
    double step_s = 0;
    if (const auto& work = job_.prediction.work; work && figures)
      step_s = plan::step_time(*work, job_.topology.batch.accumulation, *figures).total();
    return plan::against_actual(job_.prediction, job_.config.device, {run.setup_bytes, run.peak_bytes, run.step_s},
                                step_s);
  }

 private:
  const session::Job& job_;
  const ranks::Rank& rank_;
  plugin::Host& host_;
};

}  // namespace

std::vector<train::Extension> own_extensions(const session::Job& job, const ranks::Rank& rank, plugin::Host& host) {
  return {{"plan", std::make_shared<Predictions>(job, rank, host)}};
}

}  // namespace capstan::commands
