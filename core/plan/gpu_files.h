#pragma once
#include <capstan/base/export.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// The texts of plan/gpus/*.json, which the build puts into the library.
const std::vector<const char*>& gpu_files();

}  // namespace plan
CAPSTAN_END_NAMESPACE
