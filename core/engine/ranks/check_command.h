#pragma once
#include <capstan/base/export.h>

#include "launch/arguments.h"
#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// `capstan check`: prints the resolved options and returns success, or throws Error with every fault. A run that does
/// not fit into the GPU that was asked about is a bad configuration.
int check_command(const launch::CheckArguments& arguments, const launch::Environment& env);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
