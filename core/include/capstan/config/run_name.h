#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// What a run is called where its configuration does not say: as the file, with the folders before it by which it
/// differs from others in a collection of configs/. configs/a.toml is a, configs/workshop/zero/baseline.toml is
/// zero-baseline. Empty where there is no file.
std::string name_of_run(const std::filesystem::path& file);

}  // namespace config
CAPSTAN_END_NAMESPACE
