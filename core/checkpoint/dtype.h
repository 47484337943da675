#pragma once
#include <capstan/base/export.h>

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// "BF16" -> BFloat16; nothing for a name that safetensors does not have.
std::optional<c10::ScalarType> dtype_of(const std::string& name);
/// BFloat16 -> "BF16". Throws Error for a dtype that safetensors does not have.
std::string dtype_name(c10::ScalarType dtype);
/// A dtype's position in the order in which safetensors sorts tensors (highest first).
int dtype_rank(c10::ScalarType dtype);
/// "BOOL, U8, …".
std::string dtype_names();

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
