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
/// Bytes of a whole tensor, whose sizes are not negative; nothing where they are more than any file holds.
std::optional<std::int64_t> bytes_of(const layout::Shape& shape, Dtype dtype);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
