#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// 100 of "step-00000100"; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name);
/// "<path>.replaced": the name that a checkpoint gets while a new one takes its name.
std::filesystem::path replaced_of(const std::filesystem::path& path);
/// "step-00000100" of "step-00000100.replaced"; empty for any other name.
std::string name_before(const std::string& name, const std::string& ending);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
