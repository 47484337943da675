#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include "assembly/plugins.h"
#include "assembly/samples.h"
#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Does the run judge its evaluations by checkpoint.metric?
bool goes_by_metric(const setup::Configuration& config);

/// Says where it is a metric that no evaluation gives, which would end the run at its first one.
void check_metric(const setup::Configuration& config, const LoadedPlugins& plugins, const Samples& samples,
                  Diagnostics& faults);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
