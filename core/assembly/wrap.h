#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/unit_runner.h>

#include <cstddef>

#include "assembly/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Lets every strategy put its hooks around a unit of the runner and ask for its recomputation. What it throws, then or
/// later in a hook, gets "while plugin 'x' was in phase before_forward of unit blocks.3" after its message.
void wrap_unit(const Strategies& strategies, std::size_t index, strategy::UnitRunner& runner);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
