#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>
#include <capstan/plugin/host.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "predict/gpu_fit.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// What a rank would need with a change, by predicting the job again with the same global batch (where the number of
/// ranks stays); nothing where it cannot be made.
std::optional<Peak> peak_with(setup::JobRequest request, const Change& change, std::int64_t global_batch,
                              plugin::Host& host);

/// What is tried where this job does not fit. Both must outlive it.
Trials trials_of(const job::Job& job, plugin::Host& host);

/// judge_fit of a job.
Fit judge_job(const job::Job& job, const Gpu& gpu, const RankCounts& ranks, plugin::Host& host);

/// Door says what these give.
std::string too_large_text(const job::Job& job, plugin::Host& host);
std::vector<monitor::MemorySaving> savings(setup::JobRequest request, plugin::Host& host);

}  // namespace predict
CAPSTAN_END_NAMESPACE
