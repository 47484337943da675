#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

CAPSTAN_BEGIN_NAMESPACE
namespace resume {

/// Adds a fault where the run's adapters have another rank or scale than those that were saved. Returns the names of
/// records whose shape is another for that reason.
std::set<std::string> check_adapters(const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                                     Diagnostics& diagnostics);

}  // namespace resume
CAPSTAN_END_NAMESPACE
