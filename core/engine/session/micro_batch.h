#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include "assembly/plugins.h"
#include "assembly/samples.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Where train.micro_batch is "auto": sets it to the largest that divides the global batch over the data ranks and
/// whose predicted memory, with 5 % to spare, is within the request's gpu_room; 1 where none is. A run that resumes
/// takes the number of the run that it continues. The same on all ranks, which have the same request. Adds a fault
/// where nothing can be predicted: on CPUs, for an unknown GPU, or without train.global_batch.
void choose_micro_batch(setup::Configuration& config, const assembly::LoadedPlugins& plugins, plugin::Host& host,
                        Diagnostics& faults);

/// Where a strategy's option `auto` is true: the configuration with the first of that strategy's savings, after none at
/// all, that fits as above, or with the one that takes least. As it is where nothing can be predicted.
void choose_saving(setup::Configuration& config, plugin::Host& host, Diagnostics& faults);

/// Where train.regather is "auto" and parameters would stay gathered through a step: sets it to "micro_step" if by
/// prediction that does not fit as above. As it is where nothing can be predicted.
void choose_regather(setup::Configuration& config, const assembly::LoadedPlugins& plugins, plugin::Host& host,
                     const Diagnostics& faults);

/// Settles Samples::lowest_is_best. Says where checkpoint.metric is one that no evaluation gives, which would end the
/// run at its first one, and where checkpoint.mode is needed, or takes the worst evaluation for the best.
void choose_mode(const setup::Configuration& config, const assembly::LoadedPlugins& plugins, assembly::Samples& samples,
                 Diagnostics& faults);

}  // namespace session
CAPSTAN_END_NAMESPACE
