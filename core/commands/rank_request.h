#pragma once
#include <capstan/base/export.h>

#include "ranks/start.h"
#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

/// What this rank prepares: the command line's configuration, for the devices and folders that the ranks have.
/// Collective.
setup::JobRequest request_of_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                                  const ranks::Rank& rank);

}  // namespace commands
CAPSTAN_END_NAMESPACE
