#pragma once
#include <capstan/base/export.h>

#include "assembly/assemble.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Asks the strategy that claims it how the model is cut into stages, and says in the records where each is then. A
/// record of several positions has a gradient on each, whose sum is taken. One stage where no strategy does. Throws
/// Error where the cut does not fit the model or the mesh, or where the mesh has pp ranks and no strategy cuts.
void cut_into_stages(AssembledModel& model, const Strategies& strategies, const Topology& topology);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
