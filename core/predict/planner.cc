#include "predict/planner.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include "job/host_memory.h"
#include "job/settle.h"
#include "predict/gpu_fit.h"
#include "predict/settle.h"
#include "step_time/step_time.h"

namespace capstan::predict {
namespace {

setup::JobRequest request_of(const plan::Machines& machines, const Gpu& gpu) {
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
  const auto loaded = job::load_plugins(config, job::Needs::model_and_strategies, host, faults);
  const auto topology = job::make_topology(config, loaded, faults);
  faults.throw_if_any();
  return topology.batch.global_batch;
}

class RunPlanner final : public plan::Predictor {
 public:
  RunPlanner(const Planned& planned, const plan::Machines& machines, plugin::Host& host);
  std::int64_t global_batch() const override { return global_batch_; }
  std::map<std::string, bool> strategies() const override { return strategies_; }
  std::string about_times() const override;
  std::optional<std::int64_t> data_ranks(const std::vector<std::string>& overrides) const override;
  std::optional<plan::Estimate> predict(const std::vector<std::string>& overrides) const override;
  void judge() const override;

 private:
  plugin::Host& host_;
  Gpu gpu_;
  setup::JobRequest request_;
  std::optional<plan::Figures> figures_;
  double node_bytes_;
  std::int64_t global_batch_ = 0;
  std::map<std::string, bool> strategies_;
};

RunPlanner::RunPlanner(const Planned& planned, const plan::Machines& machines, plugin::Host& host)
    : host_(host),
      gpu_(gpu_named(machines.gpu)),
      request_(request_of(machines, gpu_)),
      figures_(plan::figures_of(gpu_.name)),
      node_bytes_(machines.node_bandwidth) {
  request_.file = planned.config;
  request_.overrides = planned.overrides;
  request_.hub = config::hub_cache(planned.env);
  Diagnostics unknown;
  request_ = settle_length(request_, host, unknown);
  unknown.throw_if_any();
  Diagnostics faults;
  const auto read = setup::read_configuration(request_, faults, &host);
  faults.throw_if_any();
  global_batch_ = global_batch_of(read, host);
  check_device(read);
  for (const auto& section : read.document.children("strategy")) {
    const auto* entry = section.find("enabled");
    const auto* flag = entry ? std::get_if<bool>(&entry->value) : nullptr;
    strategies_[section.path.substr(section.path.find('.') + 1)] = !flag || *flag;
  }
}

std::string RunPlanner::about_times() const {
  if (!figures_) {
    return cat("no time is predicted: nothing is known of this GPU's speed (", gpu_.name,
               "); the least memory comes first");
  }
  return cat(figures_->is_derived ? "times are derived: " : "times are estimated from measured figures: ",
             figures_->source);
}

std::optional<std::int64_t> RunPlanner::data_ranks(const std::vector<std::string>& overrides) const {
  auto request = request_;
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  try {
    Diagnostics faults;
    auto config = setup::read_configuration(request, faults, &host_);
    const auto loaded = job::load_plugins(config, job::Needs::model_and_strategies, host_, faults);
    Diagnostics of_batch;
    const auto mesh = job::make_topology(config, loaded, of_batch).mesh;
    const auto ranks = mesh.size(layout::sample_axes);
    if (!faults.empty() || ranks < 1 || global_batch_ % ranks != 0) return {};
    config.train.derive(&setup::TrainOptions::micro_batch, std::int64_t{1});
    config.train.derive(&setup::TrainOptions::accumulation, global_batch_ / ranks);
    config.train.derive(&setup::TrainOptions::global_batch, global_batch_);
    (void)job::make_topology(config, loaded, faults);
    return faults.empty() ? std::optional(ranks) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

std::optional<plan::Estimate> RunPlanner::predict(const std::vector<std::string>& overrides) const {
  const auto job = predict_with(request_, overrides, host_);
  if (!job || !job->prediction.work) return {};
  const auto& prediction = job->prediction;
  Diagnostics of_host;
  job::check_host_memory(job->config, job->topology, prediction, job::told_host_memory(*job->config.run), of_host);
  plan::Estimate estimate;
  estimate.gpu_bytes = layout::total_bytes(prediction.footprints, "cuda");
  estimate.host_bytes = job::host_bytes(prediction, "cuda");
  estimate.fits = estimate.gpu_bytes + estimate.gpu_bytes / 20 <= gpu_.room() && of_host.empty();
  estimate.memory_table = job->memory_summary();
  estimate.sample_length = job->samples.length;
  estimate.lacking = job->lacking();
  estimate.changes = job->model->changes;
  if (!figures_) return estimate;
  const auto time =
      plan::step_time(prediction.work_of_positions(), job->topology.batch.accumulation, *figures_, node_bytes_);
  estimate.seconds = time.total();
  estimate.no_time = time.unknown;
  if (estimate.seconds > 0) estimate.time_table = plan::step_time_table(time);
  estimate.positions = time.positions;
  using layout::Axis;
  const auto& mesh = job->topology.mesh;
  estimate.split_ranks = mesh.size({Axis::cp, Axis::ep, Axis::tp});
  if (job->topology.policy.shard_param && !job->topology.gathers_once) estimate.gather_ranks = mesh.size(Axis::dp);
  return estimate;
}

void RunPlanner::judge() const {
  Diagnostics faults;
  (void)job::make_job(request_, host_, faults);
  faults.throw_if_any();
}

}  // namespace

std::unique_ptr<plan::Predictor> make_planner(const Planned& planned, const plan::Machines& machines,
                                              plugin::Host& host) {
  return std::make_unique<RunPlanner>(planned, machines, host);
}

}  // namespace capstan::predict
