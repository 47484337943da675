#include "setup/job.h"

#include <capstan/base/host_memory.h>

#include <utility>

#include "setup/collect.h"
#include "setup/host_memory.h"
#include "setup/resume.h"
#include "setup/start_values.h"

namespace capstan::setup {
namespace {

Needs needs_of(Purpose purpose) { return purpose == Purpose::generate ? Needs::all_but_data : Needs::all; }

// For all ranks of a node; nothing: nobody knows.
std::optional<std::int64_t> left_on_host(const RunOptions& run) {
  const auto told = told_host_memory(run);
  return told ? told : available_host_memory();
}

// What parameters come from. Only a run resumes from a checkpoint: other jobs have no steps to compare with its.
void judge_start(const Job& job, Diagnostics& faults) {
  bool from_start = job.config.request.weights.empty();
  if (job.config.trains()) {
    collect(
        faults, [&] { from_start = !judge_resume(job, faults) && from_start; },
        job.config.checkpoint.where(&CheckpointOptions::resume));
  }
  if (from_start) collect(faults, [&] { check_added_files(job.plugins); });
}

}  // namespace

std::optional<Job> prepare(const JobRequest& request, plugin::Host& host, Diagnostics& faults) {
  auto config = read_configuration(request, faults);
  auto loaded = load_plugins(config, needs_of(request.purpose), host, faults);
  auto topology = make_topology(config, loaded, faults);
  auto samples = open_samples(config, loaded, topology, faults);
  if (!faults.empty()) return {};
  auto plugins = complete(std::move(loaded));
  const auto host_memory = left_on_host(*config.run);
  std::vector<nn::WeightPtr> own;
  std::shared_ptr<const AssembledModel> model;
  std::optional<Prediction> prediction;
  collect(faults, [&] {
    auto built = build_model(plugins);
    own = built.weights;
    model = assemble(config, plugins.strategies, topology, std::move(built), device_of(config));
    prediction = predict(config, plugins, topology, *samples, *model);
  });
  collect(faults, [&] { check_model_files(plugins, own, faults); });
  if (!prediction) return {};
  if (!request.any_host_memory) check_host_memory(config, topology, *prediction, host_memory, faults);
  Job job{std::move(config),   std::move(plugins), std::move(topology),
          std::move(*samples), std::move(model),   std::move(*prediction)};
  judge_start(job, faults);
  if (!faults.empty()) return {};
  return job;
}

Job with_samples(Job job, Samples samples) {
  job.samples = std::move(samples);
  return job;
}

std::optional<ModelJob> prepare_model(const JobRequest& request, plugin::Host& host, Diagnostics& faults) {
  auto config = read_configuration(request, faults);
  auto loaded = load_plugins(config, Needs::model_and_strategies, host, faults);
  auto tokenizer = open_tokenizer(config, loaded, faults);
  if (!faults.empty()) return {};
  auto plugins = complete(std::move(loaded));
  auto model = build_model(plugins);
  structure(model, plugins.strategies);
  return ModelJob{std::move(config), std::move(plugins), std::move(*tokenizer), std::move(model)};
}

}  // namespace capstan::setup
