#include "commands/plan_command.h"

#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/monitor/output_file.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iomanip>

#include <capstan/plugin/host.h>
#include "assembly/host_memory.h"
#include "cli/hub_cache.h"
#include "cli/plugin_folders.h"
#include "commands/check_command.h"
#include "plan/search.h"
#include "session/job.h"
#include "session/variants.h"

namespace capstan::commands {
namespace {

constexpr std::size_t shown = 8;

std::string gib(std::int64_t bytes) {
  return cat(std::fixed, std::setprecision(1), static_cast<double>(bytes) / (1LL << 30));
}

/// What all layouts are held against.
struct Plan {
  setup::JobRequest request;
  plan::Gpu gpu;
  std::optional<plan::Figures> figures;
  plan::Links links;
  std::int64_t global_batch = 0;
};

setup::JobRequest request_of(const PlanArguments& arguments, const launch::Environment& env, const plan::Gpu& gpu) {
  if (arguments.gpus % arguments.nodes != 0) {
    throw Error(cat("--nodes ", arguments.nodes, ": ", counted(arguments.gpus, "GPU does", "GPUs do"),
                    " not spread evenly over so many nodes"),
                "give --gpus as the number of all GPUs, a multiple of --nodes");
  }
  setup::JobRequest request;
  request.file = arguments.config;
  request.overrides = arguments.overrides;
  request.hub = cli::hub_cache(env);
  request.world_size = arguments.gpus;
  request.ranks_per_node = arguments.gpus / arguments.nodes;
  request.device = "cuda";
  request.gpu_room = gpu.room();
  request.gpu_capability = gpu.capability;
  request.may_lack_files = request.sizes_only = request.activations = request.any_host_memory = true;
  return request;
}

std::optional<plan::Tried> tried_of(const Plan& plan, const plan::LayoutChoice& layout, const data::BatchShape& batch,
                                    plugin::Host& host) {
  auto overrides = layout.overrides;
  const auto sizes = plan::batch_overrides(batch);
  overrides.insert(overrides.end(), sizes.begin(), sizes.end());
  const auto job = session::predict_with(plan.request, overrides, host);
  if (!job || !job->prediction.work) return {};
  plan::Tried tried{layout, job->topology.batch, job->prediction};
  tried.peak = layout::total_bytes(tried.prediction.footprints, "cuda");
  Diagnostics of_host;
  assembly::check_host_memory(job->config, job->topology, job->prediction, assembly::told_host_memory(*job->config.run),
                              of_host);
  tried.fits = tried.peak + tried.peak / 20 <= plan.gpu.room() && of_host.empty();
  if (plan.figures) tried.time = plan::step_time(*tried.prediction.work, batch.accumulation, *plan.figures, plan.links);
  return tried;
}

std::string table_of(const std::vector<plan::Tried>& all, std::int64_t tokens, int gpus) {
  std::vector<std::vector<std::string>> rows{
      {"", "micro-batch", "peak GiB", "host GiB", "step ms", "tokens/s a GPU", "strategies"}};
  for (std::size_t i = 0; i < std::min(shown, all.size()); ++i) {
    const auto& tried = all[i];
    const auto seconds = tried.time.total();
    const auto host = assembly::host_bytes(tried.prediction, "cuda");
    rows.push_back(
        {tried.fits ? cat(i + 1) : "does not fit",
         cat(tried.batch.micro_batch, " x ", tried.batch.accumulation, " x ", tried.batch.data_parallel_size),
         gib(tried.peak), host > 0 ? gib(host) : "",
         seconds > 0 ? cat(std::fixed, std::setprecision(0), seconds * 1e3) : "not predicted",
         seconds > 0 ? thousands(static_cast<std::int64_t>(static_cast<double>(tokens) / seconds / gpus)) : "",
         tried.layout.words.empty() ? "none" : tried.layout.words});
  }
  return table_text(rows);
}

// Why there are no times, or what they rest on.
std::string times_text(const Plan& plan, const std::vector<plan::Tried>& all) {
  if (!plan.figures) {
    return cat("no time is predicted: nothing is known of this GPU's speed (", plan.gpu.name,
               "); the least memory comes first\n");
  }
  std::string text =
      cat(plan.figures->is_derived ? "times are derived: " : "times are reckoned from measured figures: ",
          plan.figures->source, "\n");
  const auto unknown = std::find_if(all.begin(), all.end(), [](const auto& one) { return !one.time.unknown.empty(); });
  if (unknown != all.end()) {
    text += cat("times that are not predicted: ", unknown->time.unknown,
                " (--node-bandwidth GB/s: capstan preflight measures the bus bandwidth)\n");
  }
  return text;
}

// The configuration with what was chosen, as a file that extends it.
std::string file_of(const PlanArguments& arguments, const plan::Tried& best) {
  auto overrides = arguments.overrides;
  const auto sizes = plan::batch_overrides(best.batch);
  overrides.insert(overrides.end(), best.layout.overrides.begin(), best.layout.overrides.end());
  overrides.insert(overrides.end(), sizes.begin(), sizes.end());
  namespace fs = std::filesystem;
  const auto folder = fs::absolute(arguments.write).parent_path();
  const auto base = fs::proximate(fs::absolute(arguments.config), folder).string();
  auto text =
      cat("# capstan plan --gpus ", arguments.gpus, " --nodes ", arguments.nodes, " --gpu ", arguments.gpu,
          ": predicted peak ", gib(best.peak), " GiB",
          best.time.total() > 0 ? cat(", step ", std::fixed, std::setprecision(3), best.time.total(), " s") : "",
          "\nextends = ", config::value_text(base), "\n");
  Diagnostics none;
  const auto document = config::load({}, overrides, none);
  const auto add = [&](const config::Section& section) {
    if (section.entries.empty()) return;
    text += cat("\n[", section.path, "]\n");
    for (const auto& entry : section.entries) text += cat(entry.key, " = ", config::value_text(entry.value), "\n");
  };
  for (const auto& table : config::table_names()) add(document.section(table));
  for (const auto& group : config::group_names()) {
    for (const auto& section : document.children(group)) add(section);
  }
  return text;
}

// Faults of the configuration itself, which no layout can mend.
[[noreturn]] void refuse(const Plan& plan, plugin::Host& host) {
  Diagnostics faults;
  auto request = plan.request;
  const auto job = session::prepare(request, host, faults);
  faults.throw_if_any();
  throw Error(cat("no layout of this configuration is possible on ", counted(request.world_size, "GPU")),
              "give another number of GPUs, or a train.global_batch that more numbers divide");
}

void print_best(const plan::Tried& best) {
  terminal::print(cat("\nthe first, memory of a rank:\n", layout::footprint_table(best.prediction.footprints),
                      best.prediction.activations_note, "\n"));
  if (best.time.total() > 0) terminal::print("\n" + plan::step_time_table(best.time));
  auto options = best.layout.overrides;
  for (const auto& size : plan::batch_overrides(best.batch)) options.push_back(size);
  terminal::print(cat("\noptions: ", join(options, " "), "\n"));
}

void check_device(const setup::Configuration& config) {
  if (config.device != "cuda") {
    throw Error(cat("run.device is \"", config.device, "\", but a plan is for GPUs"),
                "add run.device=cuda to this command; the file may stay as it is",
                config.run.where(&setup::RunOptions::device));
  }
}

void refuse_own_file(const PlanArguments& arguments) {
  std::error_code differs;
  if (arguments.write.empty() || !std::filesystem::equivalent(arguments.config, arguments.write, differs)) return;
  throw Error("--write names the configuration itself, which would be replaced", "name another file", arguments.write);
}

}  // namespace

int plan_command(const PlanArguments& arguments, const launch::Environment& env) {
  refuse_own_file(arguments);
  monitor::check_output(arguments.write);
  plugin::Host host(cli::plugin_folders(env), false, cli::trusts_writers(env));
  const auto gpu = plan::gpu_named(arguments.gpu);
  Plan plan{request_of(arguments, env, gpu), gpu, plan::figures_of(gpu.name), {arguments.node_bandwidth * 1e9}};
  plan.global_batch = session::global_batch_of(plan.request, host);
  Diagnostics faults;
  const auto config = setup::read_configuration(plan.request, faults, &host);
  faults.throw_if_any();
  check_device(config);
  std::string lacking;
  std::int64_t length = 0;
  const plan::Questions ask{[&](const plan::LayoutChoice& layout) {
                              return session::data_ranks_with(plan.request, layout.overrides, plan.global_batch, host);
                            },
                            [&](const plan::LayoutChoice& layout, const data::BatchShape& batch) {
                              return tried_of(plan, layout, batch, host);
                            }};
  const auto layouts = plan::layouts_of(plan::choices_of(host, config.document));
  const auto all = plan::search(layouts, plan.global_batch, ask);
  if (all.empty()) refuse(plan, host);
  auto best_overrides = all.front().layout.overrides;
  for (const auto& size : plan::batch_overrides(all.front().batch)) best_overrides.push_back(size);
  if (const auto job = session::predict_with(plan.request, best_overrides, host)) {
    lacking = job->lacking();
    length = job->samples.length;
  }
  terminal::print(cat(arguments.config, " on ", arguments.gpus, " x ", gpu.name, ", ", arguments.nodes, " node",
                      arguments.nodes > 1 ? "s" : "", "; global batch ", plan.global_batch, ", samples of ",
                      thousands(length), " tokens\n", lacking));
  terminal::print(table_of(all, plan.global_batch * length, arguments.gpus));
  terminal::print(cat("micro-batch x accumulation x data-parallel size; ", all.size(), " layouts were predicted\n",
                      times_text(plan, all)));
  if (!all.front().fits) return static_cast<int>(ExitCode::usage);
  print_best(all.front());
  if (!arguments.write.empty()) monitor::write_output(arguments.write, file_of(arguments, all.front()));
  return static_cast<int>(ExitCode::success);
}

void add_plan_command(CLI::App& app, cli::Chosen& chosen) {
  auto* command = app.add_subcommand("plan",
                                     "find how a configuration fits on these GPUs: tries micro-batches and what "
                                     "installed strategies offer, and predicts memory and time; touches no GPU");
  const auto given = std::make_shared<PlanArguments>();
  cli::add_config_arguments(*command, {given->config, given->overrides});
  command->add_option("--gpus", given->gpus, "number of all GPUs")->required()->check(CLI::Range(1, 1000000));
  command->add_option("--nodes", given->nodes, "number of nodes that they are on, as many on each (default 1)")
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option("--gpu", given->gpu,
                   "v100-32g, a100-40g, a100-80g, h100-80g, h200-141g, or a size such as 80GiB, of which no time is "
                   "predicted")
      ->required();
  command
      ->add_option("--node-bandwidth", given->node_bandwidth,
                   "GB/s of bus bandwidth between nodes, as capstan preflight measures it; without it no time is "
                   "predicted of what crosses nodes")
      ->check(CLI::PositiveNumber);
  command->add_option("--write", given->write, "write the best as a configuration that extends the given one");
  cli::choose_with(*command, chosen,
                   [given](const cli::Process& process) { return plan_command(*given, process.env); });
}

}  // namespace capstan::commands
