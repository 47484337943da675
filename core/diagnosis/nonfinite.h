#pragma once
#include "diagnosis/door.h"

namespace capstan::diagnosis {

/// See Door::bad_step.
Diagnostic explain(const BadStep& bad);

}  // namespace capstan::diagnosis
