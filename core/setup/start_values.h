#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>

#include <memory>
#include <vector>

#include "setup/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Where the parameters of assembled units begin: the model's own in its folder (every fault of which is in one Error)
/// or their initialisation; what strategies added, in what they say, or else its initialisation.
std::unique_ptr<layout::Source> start_values(const Job& job, const std::vector<nn::Unit*>& units);

}  // namespace setup
CAPSTAN_END_NAMESPACE
