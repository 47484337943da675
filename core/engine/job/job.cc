#include "job/job.h"

#include <utility>

#include "frozen/door.h"
#include "job/head_outputs.h"
#include "job/host_memory.h"
#include "job/metric_mode.h"
#include "job/objective.h"
#include "job/open_micro_batch.h"
#include "job/open_tokenizer.h"
#include "job/resume.h"
#include "job/sections.h"
#include "job/start_values.h"
#include "monitor/available_memory.h"
#include "setup/collect.h"

namespace capstan::job {
namespace {

Needs needs_of(setup::Purpose purpose) {
  return purpose == setup::Purpose::generate ? Needs::all_but_data : Needs::all;
}

// The host memory that is left for all ranks of a node; nothing: it is unknown.
std::optional<std::int64_t> left_on_host(const setup::RunOptions& run) {
  const auto told = told_host_memory(run);
  return told ? told : monitor::available_host_memory();
}

// What parameters come from. Only a run resumes from a checkpoint: other jobs have no steps to compare with its.
void judge_start(Job& job, Diagnostics& faults) {
  if (job.samples.content) {
    setup::collect(
        faults, [&] { job.folders = frozen_folders(job); }, job.plugins.model->where);
  }
  bool from_start = job.config.request.weights.empty();
  if (job.config.trains()) {
    setup::collect(
        faults, [&] { from_start = !judge_resume(job, faults) && from_start; },
        job.config.checkpoint.where(&setup::CheckpointOptions::resume));
  }
  if (from_start) {
    setup::collect(faults, [&] { check_added_files(job.plugins); });
    setup::collect(faults, [&] { note_model_files(job.plugins, job.model->own); });
  }
}

void judge_samples(const setup::Configuration& config, const Plugins& plugins, const std::vector<FrozenPlugin>& others,
                   Samples& samples, Diagnostics& faults) {
  if (!others.empty()) frozen::door().check_samples(others, samples, faults);
  setup::collect(faults, [&] { samples.lowest_is_best = lowest_is_best(config, plugins, samples, faults); });
}

// The objective's models; what it asks of them and of the trained one is judged.
std::vector<FrozenPlugin> load_others(const setup::Configuration& config, Plugins& plugins, plugin::Host& host,
                                      Diagnostics& faults) {
  std::vector<FrozenPlugin> others;
  const bool has_any = plugins.model && plugins.minimised && !plugins.minimised->plan().models.empty();
  if (has_any && config.request.purpose != setup::Purpose::generate)
    others = frozen::door().load(config, plugins, host, faults);
  check_outputs(config, plugins, others, faults);
  return others;
}

}  // namespace

std::optional<Job> prepare(const setup::JobRequest& request, plugin::Host& host, Diagnostics& faults) {
  auto config = setup::read_configuration(request, faults, &host);
  auto plugins = load_plugins(config, needs_of(request.purpose), host, faults);
  auto others = load_others(config, plugins, host, faults);
  judge_open_micro_batch(config, faults);
  auto topology = make_topology(config, plugins, faults);
  if (faults.empty()) judge_open_room(config, faults);
  request.ended("configuration");
  auto samples = open_samples(config, plugins, topology, host, faults);
  request.ended("data");
  if (samples) judge_samples(config, plugins, others, *samples, faults);
  if (!faults.empty()) return {};
  const auto host_memory = left_on_host(*config.run);
  std::vector<nn::WeightPtr> own;
  std::shared_ptr<const AssembledModel> model;
  std::vector<FrozenModel> made;
  std::optional<Prediction> prediction;
  CAPSTAN_ASSERT(plugins.model && plugins.minimised);
  setup::collect(faults, [&] {
    auto built = build_model(*plugins.model);
    own = built.own;
    model = job::assemble(config, plugins, plugins.strategies, topology, std::move(built), device_of(config));
    check_passes(plugins, topology, model->units, faults);
    if (!others.empty()) frozen::door().check_start(others, plugins, model->units, faults);
    for (auto other = others.begin(); faults.empty() && other != others.end(); ++other)
      made.push_back(frozen::door().assemble(*other, plugins.strategies, topology, model->groups));
    prediction = job::predict(config, plugins, topology, *samples, *model, made);
  });
  setup::collect(faults, [&] { check_model_files(plugins, own, faults); });
  if (!made.empty()) setup::collect(faults, [&] { frozen::door().check_files(made, plugins, faults); });
  if (!prediction) return {};
  if (!request.any_host_memory) check_host_memory(config, topology, *prediction, host_memory, faults);
  Job job{std::move(config), std::move(plugins), std::move(topology),   std::move(*samples),
          std::move(model),  std::move(made),    std::move(*prediction)};
  if (job.samples.train || !job.config.trains()) judge_start(job, faults);
  return faults.empty() ? std::optional(std::move(job)) : std::nullopt;
}

data::Padding Job::padding() const {
  data::Padding padding;
  padding.pad_id = data::padding_id(*samples.tokenizer.object, plugins.model_facts.vocab_size);
  padding.multiple = config.row_multiple();
  padding.least = topology.least_columns();
  return padding;
}

std::optional<ModelJob> prepare_model(const setup::JobRequest& request, plugin::Host& host, Diagnostics& faults) {
  auto config = setup::read_configuration(request, faults, &host);
  auto plugins = load_plugins(config, Needs::model_and_strategies, host, faults);
  auto tokenizer = open_tokenizer(config, plugins, host, faults);
  if (!faults.empty()) return {};
  CAPSTAN_ASSERT(plugins.model);
  auto model = build_model(*plugins.model);
  job::structure(model, plugins.strategies);
  return ModelJob{std::move(config), std::move(plugins), std::move(*tokenizer), std::move(model)};
}

}  // namespace capstan::job
