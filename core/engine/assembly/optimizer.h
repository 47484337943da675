#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <vector>

#include "assembly/plugins.h"
#include "strategy/optimizer.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// How [optimizer] and its groups update these records. Prediction and session ask the same rules. Throws Error for
/// each pattern that no record's name matches.
std::shared_ptr<const strategy::Optimizer> make_optimizer(const setup::OptimizerOptions& options,
                                                          const PluginsBesidesModel& plugins,
                                                          const std::vector<const layout::Param*>& records);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
