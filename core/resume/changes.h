#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <vector>

#include "resume/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace resume {

/// See Door::changes.
std::vector<Change> changes_since(const job::Job& job, const checkpoint::Reader& reader);
/// See Door::check_accepted.
void check_accepted(const job::Job& job, const checkpoint::Reader* reader, Diagnostics& diagnostics);

}  // namespace resume
CAPSTAN_END_NAMESPACE
