#pragma once
#include <capstan/base/export.h>

#include "resume/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace resume {

/// See Door::find.
job::Resume find_resume(const job::Job& job, checkpoint::Depth depth, comm::Group* group);

}  // namespace resume
CAPSTAN_END_NAMESPACE
