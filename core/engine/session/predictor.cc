#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/plan/predictor.h>

#include <capstan/config/model_path.h>
#include "predict/step_time.h"
#include "session/gpu_fit.h"
#include "session/host_memory.h"
#include "session/settle.h"

namespace capstan::plan {
namespace {

setup::JobRequest request_of(const Machines& machines, const Gpu& gpu) {
  if (machines.gpus % machines.nodes != 0) {
    throw Error(cat("--nodes ", machines.nodes, ": ", counted(machines.gpus, "GPU does", "GPUs do"),
                    " not spread evenly over that many nodes"),
                "give --gpus as the number of all GPUs, a multiple of --nodes");
  }
  setup::JobRequest request;
  request.world_size = machines.gpus;
  request.ranks_per_node = machines.gpus / machines.nodes;
  request.device = "cuda";
  request.gpu_room = gpu.room();
  request.gpu_capability = gpu.capability;
  request.may_lack_files = request.sizes_only = request.activations = request.any_host_memory = true;
  return request;
}

void check_device(const setup::Configuration& config) {
  if (config.device != "cuda") {
    throw Error(cat("run.device is \"", config.device, "\", but a plan is for GPUs"),
                "add run.device=cuda to this command; the file may stay as it is",
                config.run.where(&setup::RunOptions::device));
  }
}

// Samples of a step, as the configuration has it on these ranks. Throws Error with its faults.
std::int64_t global_batch_of(const setup::Configuration& config, plugin::Host& host) {
  if (config.train->global_batch) return *config.train->global_batch;
  Diagnostics faults;
  const auto loaded = assembly::load_plugins(config, assembly::Needs::model_and_strategies, host, faults);
  const auto topology = assembly::make_topology(config, loaded, faults);
  faults.throw_if_any();
  return topology.batch.global_batch;
}

}  // namespace

struct Predictor::Impl {
  Impl(const Machines& machines, plugin::Host& plugins)
      : host(plugins),
        gpu(gpu_named(machines.gpu)),
        request(request_of(machines, gpu)),
        figures(figures_of(gpu.name)),
        node_bytes(machines.node_bandwidth) {}

  plugin::Host& host;
  Gpu gpu;
  setup::JobRequest request;
  std::optional<Figures> figures;
  double node_bytes;
  std::int64_t global_batch = 0;
  std::map<std::string, bool> strategies;
};

Predictor::Predictor(const std::string& config, const std::vector<std::string>& overrides, const Machines& machines,
                     const Environment& env, plugin::Host& host)
    : impl_(std::make_unique<Impl>(machines, host)) {
  auto& request = impl_->request;
  request.file = config;
  request.overrides = overrides;
  request.hub = config::hub_cache(env);
  Diagnostics unknown;
  request = session::settle_length(request, host, unknown);
  unknown.throw_if_any();
  Diagnostics faults;
  const auto read = setup::read_configuration(request, faults, &host);
  faults.throw_if_any();
  impl_->global_batch = global_batch_of(read, host);
  check_device(read);
  for (const auto& section : read.document.children("strategy")) {
    const auto* entry = section.find("enabled");
    const auto* flag = entry ? std::get_if<bool>(&entry->value) : nullptr;
    impl_->strategies[section.path.substr(section.path.find('.') + 1)] = !flag || *flag;
  }
}

Predictor::~Predictor() = default;

std::int64_t Predictor::global_batch() const { return impl_->global_batch; }
std::map<std::string, bool> Predictor::strategies() const { return impl_->strategies; }

std::string Predictor::about_times() const {
  const auto& figures = impl_->figures;
  if (!figures) {
    return cat("no time is predicted: nothing is known of this GPU's speed (", impl_->gpu.name,
               "); the least memory comes first");
  }
  return cat(figures->is_derived ? "times are derived: " : "times are estimated from measured figures: ",
             figures->source);
}

std::optional<std::int64_t> Predictor::data_ranks(const std::vector<std::string>& overrides) const {
  auto request = impl_->request;
  auto& host = impl_->host;
  const auto global_batch = impl_->global_batch;
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  try {
    Diagnostics faults;
    auto config = setup::read_configuration(request, faults, &host);
    const auto loaded = assembly::load_plugins(config, assembly::Needs::model_and_strategies, host, faults);
    Diagnostics of_batch;
    const auto mesh = assembly::make_topology(config, loaded, of_batch).mesh;
    const auto ranks = mesh.size(layout::sample_axes);
    if (!faults.empty() || ranks < 1 || global_batch % ranks != 0) return {};
    config.train.derive(&setup::TrainOptions::micro_batch, std::int64_t{1});
    config.train.derive(&setup::TrainOptions::accumulation, global_batch / ranks);
    config.train.derive(&setup::TrainOptions::global_batch, global_batch);
    (void)assembly::make_topology(config, loaded, faults);
    return faults.empty() ? std::optional(ranks) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

std::optional<Estimate> Predictor::predict(const std::vector<std::string>& overrides) const {
  const auto job = session::predict_with(impl_->request, overrides, impl_->host);
  if (!job || !job->prediction.work) return {};
  const auto& prediction = job->prediction;
  Diagnostics of_host;
  session::check_host_memory(job->config, job->topology, prediction, session::told_host_memory(*job->config.run),
                             of_host);
  Estimate estimate;
  estimate.gpu_bytes = layout::total_bytes(prediction.footprints, "cuda");
  estimate.host_bytes = session::host_bytes(prediction, "cuda");
  estimate.fits = estimate.gpu_bytes + estimate.gpu_bytes / 20 <= impl_->gpu.room() && of_host.empty();
  estimate.memory_table = job->memory_summary();
  estimate.sample_length = job->samples.length;
  estimate.lacking = job->lacking();
  estimate.changes = job->model->changes;
  if (!impl_->figures) return estimate;
  const auto time =
      step_time(prediction.work_of_positions(), job->topology.batch.accumulation, *impl_->figures, impl_->node_bytes);
  estimate.seconds = time.total();
  estimate.no_time = time.unknown;
  if (estimate.seconds > 0) estimate.time_table = step_time_table(time);
  estimate.positions = time.positions;
  using layout::Axis;
  const auto& mesh = job->topology.mesh;
  estimate.split_ranks = mesh.size({Axis::cp, Axis::ep, Axis::tp});
  if (job->topology.policy.shard_param && !job->topology.gathers_once) estimate.gather_ranks = mesh.size(Axis::dp);
  return estimate;
}

void Predictor::judge() const {
  Diagnostics faults;
  (void)session::make_job(impl_->request, impl_->host, faults);
  faults.throw_if_any();
}

}  // namespace capstan::plan
