#pragma once
#include <capstan/base/export.h>

#include <string>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace observe {

/// A warning where [checkpoint] has options that only count for a run that saves, and this one saves nothing; else
/// empty. That is no fault: resume = "auto" may only be there to read.
std::string unsaved_warning(const config::Options<setup::CheckpointOptions>& options);

}  // namespace observe
CAPSTAN_END_NAMESPACE
