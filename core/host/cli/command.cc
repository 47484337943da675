#include "cli/command.h"

#include <capstan/base/text.h>

#include <CLI/CLI.hpp>
#include <utility>

namespace capstan::cli {

void choose_with(CLI::App& command, Chosen& chosen, Chosen run) {
  command.callback([&chosen, run = std::move(run)] { chosen = run; });
}

plugin::Host plugin_host(const launch::Environment& env, bool uses_gpu) {
  std::vector<std::filesystem::path> folders;
  for (const auto& folder : split(env("CAPSTAN_PLUGIN_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return plugin::Host(folders, uses_gpu, env("CAPSTAN_TRUST_PLUGINS") == "1");
}

}  // namespace capstan::cli
