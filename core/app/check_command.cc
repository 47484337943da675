#include "app/check_command.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <cstdio>
#include <optional>

#include "app/gpu_fit.h"
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

namespace {

std::int64_t peak_with(setup::JobRequest request, const Change& change, plugin::Host& host) {
  request.overrides.insert(request.overrides.end(), change.overrides.begin(), change.overrides.end());
  if (change.ranks > 0) request.world_size = change.ranks;
  Diagnostics diagnostics;
  try {
    const auto job = setup::prepare(request, host, diagnostics);
    if (!diagnostics.empty() || !job.activations) return -1;
    return layout::total_bytes(job.footprints, job.device);
  } catch (const Error&) {
    return -1;  // not with this configuration
  }
}

}  // namespace

int check_command(const CheckArguments& arguments, const Environment& env) {
  plugin::Host host(plugin_folders(env));
  setup::JobRequest request;
  request.file = arguments.config;
  request.overrides = arguments.overrides;
  request.hub = hub_cache(env);
  request.world_size = arguments.ranks > 0 ? arguments.ranks : 1;
  request.activations = true;
  request.may_move = true;
  std::optional<Gpu> gpu;
  if (!arguments.gpu.empty()) {
    gpu = gpu_named(arguments.gpu);
    request.device = "cuda";
  }
  Diagnostics diagnostics;
  const auto job = setup::prepare(request, host, diagnostics);
  diagnostics.throw_if_any();
  if (!arguments.resolved.empty()) write_file(arguments.resolved, config::to_toml(job.tables()));
  std::fputs(job.text().c_str(), stdout);
  if (job.device != "cpu" && request.device == "cpu" && job.run->device == "auto")
    std::puts("note: fp16 needs a GPU: this is judged as for a machine that has one");
  std::printf("%s: no faults found\n", arguments.config.c_str());
  if (!gpu) return static_cast<int>(ExitCode::success);
  const auto fit =
      judge_fit(job, *gpu, request.world_size, [&](const Change& change) { return peak_with(request, change, host); });
  std::fputs(fit.text.c_str(), stdout);
  return static_cast<int>(fit.fits ? ExitCode::success : ExitCode::usage);
}

}  // namespace capstan::app
