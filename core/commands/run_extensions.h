#pragma once
#include <capstan/base/export.h>

#include <vector>

#include "ranks/start.h"
#include "train/run.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

/// What core itself does for a run besides its loop: predictions that it asks for. All arguments
/// outlive the run.
std::vector<train::Extension> own_extensions(const session::Job& job, const ranks::Rank& rank, plugin::Host& host);

}  // namespace commands
CAPSTAN_END_NAMESPACE
