#pragma once
#include <capstan/base/export.h>
#include <capstan/record/safetensors.h>

#include <c10/core/ScalarType.h>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Throws Error for a dtype that safetensors does not have.
Dtype dtype_of(c10::ScalarType dtype);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
