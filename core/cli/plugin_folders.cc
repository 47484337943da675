#include "cli/plugin_folders.h"

#include <capstan/base/text.h>

namespace capstan::cli {

std::vector<std::filesystem::path> plugin_folders(const launch::Environment& env) {
  std::vector<std::filesystem::path> folders;
  for (const auto& folder : split(env("CAPSTAN_PLUGIN_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

bool trusts_writers(const launch::Environment& env) { return env("CAPSTAN_TRUST_PLUGINS") == "1"; }

}  // namespace capstan::cli
