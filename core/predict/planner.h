#pragma once
#include <capstan/base/export.h>

#include <memory>

#include "predict/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Throws Error as plan::Predictor::open does.
std::unique_ptr<plan::Predictor> make_planner(const Planned& planned, const plan::Machines& machines,
                                              plugin::Host& host);

}  // namespace predict
CAPSTAN_END_NAMESPACE
