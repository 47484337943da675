#pragma once
#include <capstan/base/export.h>

#include <memory>

#include "predict/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// Throws Error as Predictor's constructor does.
std::unique_ptr<predict::Planner> make_planner(const predict::Planned& planned, const Machines& machines,
                                               plugin::Host& host);

}  // namespace plan
CAPSTAN_END_NAMESPACE
