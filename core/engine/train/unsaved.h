#pragma once
#include <capstan/base/export.h>

#include <string>

#include "job/job.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// A warning where [checkpoint] has options that only count for a run that saves, and this one saves nothing; else
/// empty. That is no fault: resume = "auto" may only be there to read.
std::string unsaved_warning(const config::Options<setup::CheckpointOptions>& options);

/// Logs what a run of this job, or `check`, says of options that are no fault and yet may not be meant.
void warn_of_options(const job::Job& job);

}  // namespace train
CAPSTAN_END_NAMESPACE
