#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include "job/plugins.h"
#include "job/samples.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Is the lowest checkpoint.metric the best (Samples::lowest_is_best)? Says where the metric is one that no evaluation
/// gives, which would end the run at its first one, and where checkpoint.mode is needed, or takes the worst evaluation
/// for the best.
bool lowest_is_best(const setup::Configuration& config, const Plugins& plugins, const Samples& samples,
                    Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
