#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <vector>

#include "resume/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace resume {

/// See Door::check.
void check_resume(const job::Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                  Diagnostics& diagnostics);

}  // namespace resume
CAPSTAN_END_NAMESPACE
