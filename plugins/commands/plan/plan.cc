#include "plan.h"

#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/config/toml_values.h>
#include <capstan/monitor/output_file.h>
#include <capstan/plan/predictor.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>

#include "search.h"

namespace planning {
namespace {

using namespace capstan;

constexpr std::size_t shown = 8;

std::string gib(std::int64_t bytes) {
  return cat(std::fixed, std::setprecision(1), static_cast<double>(bytes) / (1LL << 30));
}

std::string table_of(const std::vector<Tried>& all, std::int64_t tokens, int gpus) {
  std::vector<std::vector<std::string>> rows{
      {"", "micro-batch", "peak GiB", "host GiB", "step ms", "tokens/s a GPU", "strategies"}};
  for (std::size_t i = 0; i < std::min(shown, all.size()); ++i) {
    const auto& [layout, batch, estimate] = all[i];
    const auto seconds = estimate.seconds;
    rows.push_back(
        {estimate.fits ? cat(i + 1) : "does not fit",
         cat(batch.micro_batch, " x ", batch.accumulation, " x ", batch.data_ranks), gib(estimate.gpu_bytes),
         estimate.host_bytes > 0 ? gib(estimate.host_bytes) : "",
         seconds > 0 ? cat(std::fixed, std::setprecision(0), seconds * 1e3) : "not predicted",
         seconds > 0 ? thousands(static_cast<std::int64_t>(static_cast<double>(tokens) / seconds / gpus)) : "",
         layout.words.empty() ? "none" : layout.words});
  }
  return table_text(rows);
}

// What times rest on, and which are not predicted.
std::string times_text(const plan::Predictor& predictor, const std::vector<Tried>& all) {
  auto text = predictor.about_times() + "\n";
  const auto unknown =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return !one.estimate.no_time.empty(); });
  if (unknown == all.end()) return text;
  return text + cat("times that are not predicted: ", unknown->estimate.no_time,
                    " (--node-bandwidth GB/s: capstan preflight measures the bus bandwidth)\n");
}

// The configuration with what was chosen, as a file that extends it.
std::string file_of(const PlanArguments& arguments, const Tried& best) {
  namespace fs = std::filesystem;
  auto overrides = arguments.overrides;
  const auto chosen = overrides_of(best.layout, best.batch);
  overrides.insert(overrides.end(), chosen.begin(), chosen.end());
  const auto folder = fs::absolute(arguments.write).parent_path();
  const auto base = fs::proximate(fs::absolute(arguments.config), folder).string();
  const auto seconds = best.estimate.seconds;
  return cat("# capstan plan --gpus ", arguments.gpus, " --nodes ", arguments.nodes, " --gpu ", arguments.gpu,
             ": predicted peak ", gib(best.estimate.gpu_bytes), " GiB",
             seconds > 0 ? cat(", step ", std::fixed, std::setprecision(3), seconds, " s") : "",
             "\nextends = ", config::value_text(base), "\n", config::toml_of_overrides(overrides));
}

// Faults of the configuration itself, which no layout can repair.
[[noreturn]] void refuse(const plan::Predictor& predictor, int gpus) {
  predictor.judge();
  throw Error(cat("no layout of this configuration is possible on ", counted(gpus, "GPU")),
              "give another number of GPUs, or a train.global_batch that more numbers divide");
}

void print_best(const Tried& best) {
  terminal::print(cat("\nthe first, ", best.estimate.memory_table));
  if (!best.estimate.time_table.empty()) terminal::print("\n" + best.estimate.time_table);
  if (!best.estimate.changes.empty()) terminal::print("\nwhat strategies make of the model:\n" + best.estimate.changes);
  terminal::print(cat("\noptions: ", join(overrides_of(best.layout, best.batch), " "), "\n"));
}

void print_simulation(const Tried& best, const PlanArguments& arguments) {
  if (best.estimate.positions.empty()) {
    throw Error("no step can be simulated: no time is predicted here",
                "name a GPU whose speed is known, and --node-bandwidth where there are several nodes");
  }
  terminal::print("\n" + simulation_text(best.estimate, arguments.gpus, arguments.disturbances));
}

void refuse_own_file(const PlanArguments& arguments) {
  std::error_code differs;
  if (arguments.write.empty() || !std::filesystem::equivalent(arguments.config, arguments.write, differs)) return;
  throw Error("--write names the configuration itself, which would be replaced", "name another file", arguments.write);
}

// What the simulation's options say, as it was written.
struct Factors {
  std::vector<std::string> slow_gpus;
  std::vector<std::string> slow_links;
};

void declare_disturbances(command::Arguments& arguments, Disturbances& given, Factors& factors) {
  const auto* group = "Simulation of all ranks with the first of the table";
  arguments
      .values("--slow-gpu", factors.slow_gpus, "RANK=FACTOR: this GPU computes that many times as long; repeatable")
      .one_each()
      .group(group);
  arguments
      .values("--slow-link", factors.slow_links,
              "RANK=FACTOR: what this rank sends and receives takes that many times as long; repeatable")
      .one_each()
      .group(group);
  arguments.values("--lost-link", given.lost_links, "RANK: nothing reaches it, and nothing of it arrives; repeatable")
      .one_each()
      .group(group);
  const auto jitter =
      arguments.value("--jitter", given.jitter, "each action of each rank takes up to this share longer, such as 0.05")
          .real_range(0, 100)
          .group(group);
  arguments.value("--seed", given.seed, "of the jitter (default 1)").only_with(jitter).group(group);
}

void declare(command::Arguments& arguments, PlanArguments& given) {
  arguments.configuration(given.config, given.overrides);
  arguments.value("--gpus", given.gpus, "number of all GPUs").required().range(1, 1000000);
  arguments.value("--nodes", given.nodes, "number of nodes that they are on, as many on each (default 1)")
      .range(1, 1000000);
  arguments
      .value("--gpu", given.gpu,
             "v100-32g, a100-40g, a100-80g, h100-80g, h200-141g, or a size such as 80GiB, for which no time is "
             "predicted")
      .required();
  arguments
      .value("--node-bandwidth", given.node_bandwidth,
             "GB/s of bus bandwidth between nodes, as capstan preflight measures it; without it no time is "
             "predicted of what crosses nodes")
      .positive();
  arguments.value("--write", given.write, "write the best as a configuration that extends the given one");
}

/// capstan plan FILE … --gpus N --gpu NAME
int run(const command::Call& call) {
  command::Arguments arguments;
  PlanArguments given;
  Factors factors;
  declare(arguments, given);
  declare_disturbances(arguments, given.disturbances, factors);
  if (const auto code = arguments.read(call)) return *code;
  for (const auto& text : factors.slow_gpus) read_factor(text, "--slow-gpu", given.disturbances.slow_gpus);
  for (const auto& text : factors.slow_links) read_factor(text, "--slow-link", given.disturbances.slow_links);
  return plan(given, call);
}

}  // namespace

int plan(const PlanArguments& arguments, const command::Call& call) {
  refuse_own_file(arguments);
  monitor::check_output(arguments.write);
  const plan::Machines machines{arguments.gpus, arguments.nodes, arguments.gpu, arguments.node_bandwidth * 1e9};
  const auto opened =
      plan::Predictor::open(arguments.config, arguments.overrides, machines, call.environment, call.plugins);
  const auto& predictor = *opened;
  const auto global_batch = predictor.global_batch();
  const Questions ask{[&](const LayoutChoice& layout) { return predictor.data_ranks(layout.overrides); },
                      [&](const LayoutChoice& layout, const BatchSizes& batch) {
                        return predictor.predict(overrides_of(layout, batch));
                      }};
  // Warnings are about one of many layouts, and what they warn of costs predicted time.
  log::configure("", log::Level::error, 0);
  const auto all = search(layouts_of(choices_of(call.plugins, predictor.strategies())), global_batch, ask);
  log::configure("", log::Level::warning, 0);
  if (all.empty()) refuse(predictor, arguments.gpus);
  const auto& best = all.front();
  const auto length = best.estimate.sample_length;
  terminal::print(cat(arguments.config, " on ", arguments.gpus, " x ", arguments.gpu, ", ", arguments.nodes, " node",
                      arguments.nodes > 1 ? "s" : "", "; global batch ", global_batch, ", samples of ",
                      thousands(length), " tokens\n", best.estimate.lacking));
  terminal::print(table_of(all, global_batch * length, arguments.gpus));
  terminal::print(cat("micro-batch x accumulation x data-parallel size; ", all.size(), " layouts were predicted\n",
                      times_text(predictor, all)));
  if (!best.estimate.fits) return static_cast<int>(ExitCode::usage);
  print_best(best);
  if (arguments.disturbances.any()) print_simulation(best, arguments);
  if (!arguments.write.empty()) monitor::write_output(arguments.write, file_of(arguments, best));
  return static_cast<int>(ExitCode::success);
}

CAPSTAN_COMMAND("plan", "0.1.0",
                "find how a configuration fits on these GPUs: tries micro-batches and what installed strategies offer, "
                "and predicts memory and time; touches no GPU",
                run)

}  // namespace planning
