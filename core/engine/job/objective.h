#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <memory>
#include <vector>

#include "job/assemble.h"
#include "job/plugins.h"
#include "job/topology.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Asks the objective for its plan, and says what its options and the data's form do not allow.
void settle_objective(Plugins& plugins, Diagnostics& faults);

/// Says where an objective compares with another model and the trained one is cut into stages, or where it needs the
/// base model, and something besides adapters is trained, so that there is none.
void check_passes(const Plugins& plugins, const Topology& topology, const std::vector<std::unique_ptr<nn::Unit>>& units,
                  Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
