#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Why a run ends before its last step, by train.stop_after_evals; empty: it continues. `values`: this metric in all
/// evaluations since the run's beginning. A value that is not finite is no better than any other.
std::string reason_to_stop(const TrainOptions& train, const std::string& metric, bool lowest_is_best,
                           const std::vector<double>& values);

/// Faults of the options for it in a run of this number of steps: without evaluation data (steps_per_epoch is 0 then),
/// or with too few evaluations before the last step, the run would never end early.
void check_stopping(const config::Options<TrainOptions>& train, std::int64_t steps, std::int64_t steps_per_epoch,
                    Diagnostics& diagnostics);

}  // namespace setup
CAPSTAN_END_NAMESPACE
