#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Where train.micro_batch is "auto" and nothing has settled it: says what leaves nothing to choose, which are CPUs, a
/// missing train.global_batch, and train.accumulation besides it.
void judge_open_micro_batch(const setup::Configuration& config, Diagnostics& faults);

/// The same of the GPU, which is not known; for a configuration that has no other fault.
void judge_open_room(const setup::Configuration& config, Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
