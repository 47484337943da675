#pragma once
#include <capstan/base/export.h>

#include <cstddef>

#include "job/plugins.h"
#include "step/unit_runner.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Lets every strategy put its hooks around a unit of the runner and ask for its recomputation. What it throws, then or
/// later in a hook, gets "while plugin 'x' was in phase before_forward of unit blocks.3" after its message.
void wrap_unit(const job::Strategies& strategies, std::size_t index, UnitRunner& runner);

}  // namespace step
CAPSTAN_END_NAMESPACE
