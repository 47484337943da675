#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>

#include "launch/arguments.h"
#include "launch/launch.h"
#include "session/gpu_fit.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// `capstan check`: prints the resolved options and returns success, or throws Error with every fault. A run that does
/// not fit into the GPU that was asked about is a bad configuration.
int check_command(const launch::CheckArguments& arguments, const launch::Environment& env);

/// What a rank would need with a change, by preparing the job again with the same global batch (where the number of
/// ranks stays); nothing where it cannot be made.
std::optional<plan::Peak> peak_with(setup::JobRequest request, const plan::Change& change, std::int64_t global_batch,
                                    plugin::Host& host);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
