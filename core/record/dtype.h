#pragma once
#include <capstan/base/export.h>
#include <capstan/record/safetensors.h>

#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// "BF16" -> bf16; nothing for a name that safetensors does not have.
std::optional<Dtype> dtype_named(const std::string& name);
/// "BOOL, U8, …".
std::string dtype_names();

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
