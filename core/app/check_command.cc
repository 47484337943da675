#include "app/check_command.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <cstdio>

#include "app/hub_cache.h"
#include "plugin/host.h"
#include "setup/job.h"

namespace capstan::app {

std::vector<std::filesystem::path> plugin_folders(const Environment& env) {
  std::vector<std::filesystem::path> folders;
  for (const auto& folder : split(env("CAPSTAN_PLUGIN_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

int check_command(const CheckArguments& arguments, const Environment& env) {
  plugin::Host host(plugin_folders(env));
  Diagnostics diagnostics;
  setup::JobRequest request;
  request.file = arguments.config;
  request.overrides = arguments.overrides;
  request.hub = hub_cache(env);
  request.world_size = arguments.ranks > 0 ? arguments.ranks : 1;
  const auto job = setup::prepare(request, host, diagnostics);
  diagnostics.throw_if_any();
  if (!arguments.resolved.empty()) write_file(arguments.resolved, config::to_toml(job.tables()));
  std::fputs(job.text().c_str(), stdout);
  std::printf("%s: no faults found\n", arguments.config.c_str());
  return static_cast<int>(ExitCode::success);
}

}  // namespace capstan::app
