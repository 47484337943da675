#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <vector>

#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// The folders of CAPSTAN_PLUGIN_PATH.
std::vector<std::filesystem::path> plugin_folders(const launch::Environment& env);
/// CAPSTAN_TRUST_PLUGINS=1: plugins that others may write are loaded too.
bool trusts_writers(const launch::Environment& env);

}  // namespace cli
CAPSTAN_END_NAMESPACE
