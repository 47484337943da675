#include "ranks/check_command.h"

#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/monitor/output_file.h>
#include <capstan/plugin/host.h>

#include <algorithm>
#include <optional>

#include "cli/commands.h"
#include "job/host_memory.h"
#include "job/settle.h"
#include "predict/door.h"
#include "ranks/gpu_module.h"
#include "session/door.h"
#include "train/unsaved.h"

namespace capstan::ranks {
namespace {

// For a run on another machine: what its ranks take of host memory is held only against run.host_memory.
void check_told_memory(const job::Job& job, Diagnostics& faults) {
  job::check_host_memory(job.config, job.topology, job.prediction, job::told_host_memory(*job.config.run), faults);
}

int ranks_per_node(const predict::RankCounts& ranks) {
  if (ranks.nodes == 0) return 0;
  if (ranks.all % ranks.nodes == 0) return ranks.all / ranks.nodes;
  const auto more = (ranks.all / ranks.nodes + 1) * ranks.nodes;
  throw Error(cat("--nodes ", ranks.nodes, ": ", counted(ranks.all, "rank does", "ranks do"),
                  " not spread evenly over that many nodes"),
              cat("give --ranks as the number of all ranks, such as --ranks ", more, ", or other --nodes"));
}

// What --resolved writes must not replace what it is made from.
void refuse_own_file(const launch::CheckArguments& arguments) {
  std::error_code differs;
  if (arguments.resolved.empty() || !std::filesystem::equivalent(arguments.config, arguments.resolved, differs)) return;
  throw Error("--resolved names the configuration itself, which would be replaced", "name another file",
              arguments.resolved);
}

// Has this machine such a GPU? Then its host memory is what a run would find; a driver that shows none means no.
bool is_here(const predict::Gpu& wanted) {
  constexpr std::int64_t near = std::int64_t{1} << 30;  // what CUDA reports differs a little from board to board
  const auto facts = gpus::ask_driver();
  return std::any_of(facts.gpus.begin(), facts.gpus.end(), [&](const auto& gpu) {
    return std::abs(gpu.bytes - wanted.bytes) < near &&
           (wanted.capability == 0 || wanted.capability == 10 * gpu.major + gpu.minor);
  });
}

// What ranks need on another machine, where run.host_memory does not say what there is.
std::string host_elsewhere_text(const job::Job& job) {
  const auto needed = job::host_bytes(job.prediction, job.config.device);
  if (needed == 0 || job::told_host_memory(*job.config.run)) return {};
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  return cat("host memory: a rank needs ", text(needed), ", the ", job.topology.ranks_per_node, " of a node ",
             text(needed * job.topology.ranks_per_node),
             "; what a node with such a GPU has left is not known on "
             "this machine, which has none: run.host_memory=GIB says it\n");
}

// What is said of a configuration without faults.
void print_checked(const job::Job& job, const launch::CheckArguments& arguments, const predict::RankCounts& ranks,
                   const std::string& device) {
  train::warn_of_options(job);
  if (!job.plugins.model->note.empty()) log::warning(job.plugins.model->note);
  terminal::print(job.text());
  if (job.config.device != "cpu" && device == "cpu" && job.config.run->device == "auto")
    terminal::print("note: fp16 needs a GPU: this is judged as for a machine that has one\n");
  for (const auto split : {data::Split::train, data::Split::eval})
    terminal::print(session::door().cut_answers(job, split));
  const auto lacking = job.lacking();
  terminal::print(lacking);
  terminal::print(cat(arguments.config, ": no faults found", lacking.empty() ? "" : " in what is there", "\n"));
  if (ranks.all > 1 && ranks.nodes == 0)
    terminal::print("all ranks were taken to be on one node: --nodes N says otherwise\n");
}

}  // namespace

int check_command(const launch::CheckArguments& arguments, const launch::Environment& env) {
  auto host = cli::plugin_host(env);
  setup::JobRequest request;
  request.file = arguments.config;
  request.overrides = arguments.overrides;
  request.hub = config::hub_cache(env);
  const predict::RankCounts ranks{arguments.ranks > 0 ? arguments.ranks : 1, arguments.nodes};
  request.world_size = ranks.all;
  request.ranks_per_node = ranks_per_node(ranks);
  request.activations = true;
  request.may_move = true;
  std::optional<predict::Gpu> gpu;
  if (!arguments.gpu.empty()) {
    gpu = predict::door().gpu_named(arguments.gpu);
    request.device = "cuda";
    request.gpu_capability = gpu->capability;
    request.gpu_room = gpu->room();
    // A configuration that is frozen for a run is held against files that are there.
    request.may_lack_files = arguments.resolved.empty();
    request.any_host_memory = !is_here(*gpu);
  }
  refuse_own_file(arguments);
  monitor::check_output(arguments.resolved);
  Diagnostics diagnostics;
  const auto prepared = job::make_job(request, host, diagnostics);
  if (gpu && prepared)
    predict::door().judge_gpu(*gpu, prepared->config.train->precision, gpu_module_cuda(), diagnostics);
  if (prepared && request.any_host_memory) check_told_memory(*prepared, diagnostics);
  diagnostics.throw_if_any();
  const auto& job = *prepared;
  if (!arguments.resolved.empty()) monitor::write_output(arguments.resolved, config::to_toml(job.tables()));
  print_checked(job, arguments, ranks, request.device);
  if (!gpu) return static_cast<int>(ExitCode::success);
  const auto fit = predict::door().judge_fit(job, *gpu, ranks, host);
  terminal::print(fit.text);
  if (request.any_host_memory) terminal::print(host_elsewhere_text(job));
  return static_cast<int>(fit.fits ? ExitCode::success : ExitCode::usage);
}

}  // namespace capstan::ranks
