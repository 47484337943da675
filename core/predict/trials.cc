#include "predict/trials.h"

#include <capstan/base/text.h>

#include "job/host_memory.h"
#include "job/settle.h"
#include "predict/settle.h"

namespace capstan::predict {

std::optional<Peak> peak_with(setup::JobRequest request, const Change& change, std::int64_t global_batch,
                              plugin::Host& host) {
  if (change.ranks > 0) {
    request.world_size = change.ranks;
    request.ranks_per_node = change.nodes > 0 ? change.ranks / change.nodes : 0;
  }
  // The run will be on other machines than this one: what it needs there is said, and held only against what was told.
  auto overrides = change.overrides;
  // The same samples in a step, whatever the ranks have their own of.
  if (change.ranks == 0) overrides.push_back(cat("train.global_batch=", global_batch));
  const auto job = predict_with(request, overrides, host);
  if (!job || !job->prediction.activations) return {};
  Peak peak{layout::total_bytes(job->prediction.footprints, job->config.device),
            job::host_bytes(job->prediction, job->config.device)};
  Diagnostics diagnostics;
  job::check_host_memory(job->config, job->topology, job->prediction, job::told_host_memory(*job->config.run),
                         diagnostics);
  peak.host_fits = diagnostics.empty();
  return peak;
}

Trials trials_of(const job::Job& job, plugin::Host& host) {
  return {offers_of(host), [&](const Change& change) {
            return peak_with(job.config.request, change, job.topology.batch.global_batch, host);
          }};
}

Fit judge_job(const job::Job& job, const Gpu& gpu, const RankCounts& ranks, plugin::Host& host) {
  return judge_fit({job.prediction, job.config.device, job.topology.batch}, gpu, ranks, trials_of(job, host));
}

std::string too_large_text(const job::Job& job, plugin::Host& host) {
  const auto& request = job.config.request;
  if (request.gpu_room == 0 || !job.prediction.activations) return {};
  const RankCounts ranks{request.world_size, request.world_size / job.topology.ranks_per_node};
  const Gpu smallest{"the run's smallest GPU", request.gpu_room + Gpu::reserve};
  const auto fit = judge_job(job, smallest, ranks, host);
  return fit.fits ? "" : job.memory_summary() + fit.text;
}

std::vector<monitor::MemorySaving> savings(setup::JobRequest request, plugin::Host& host) {
  if (request.device == "cpu") {
    request.device = "cuda";
    request.overrides.emplace_back("run.device=auto");
  }
  request.any_host_memory = true;
  Diagnostics faults;
  const auto job = job::make_job(request, host, faults);
  faults.throw_if_any();
  const auto peak = layout::total_bytes(job->prediction.footprints, job->config.device);
  std::vector<monitor::MemorySaving> list;
  for (const auto& [change, with] : what_saves_most(job->topology.batch, peak, trials_of(*job, host)))
    list.push_back({change.words, join(change.overrides, " "), with.gpu});
  return list;
}

}  // namespace capstan::predict
