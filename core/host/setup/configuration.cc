#include "setup/configuration.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/run_name.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "config/paths.h"
#include "config/plugin_table.h"
#include "plugin/by_default.h"
#include "setup/precision.h"
#include "setup/schedule.h"

namespace capstan::setup {
namespace {

void check_train(const config::Options<TrainOptions>& train, Diagnostics& faults) {
  if (train->temperature == 0 && train->top_p != 1) {
    faults.add(train.where(&TrainOptions::top_p), "train.top_p is below 1, but no token is drawn",
               "set train.temperature, such as 0.7, or train.top_p = 1");
  }
  constexpr double coldest = 0.01;  // below, what is drawn is the most probable token, or a quotient overflows
  if (train->temperature > 0 && train->temperature < coldest) {
    faults.add(train.where(&TrainOptions::temperature),
               cat("train.temperature is ", number_text(train->temperature), ", from which nothing can be drawn"),
               cat("set it to 0 for the most probable token each time, or to ", coldest, " or more"));
  }
  if (train->stop_min_delta > 0 && train->stop_after_evals == 0) {
    faults.add(train.where(&TrainOptions::stop_min_delta),
               "train.stop_min_delta has no effect: train.stop_after_evals is 0",
               "set train.stop_after_evals to a number of evaluations, or remove it");
  }
}

void check_host_tables(const Configuration& config, Diagnostics& faults) {
  check_run(config.run, faults);
  check_checkpoint(config.checkpoint, faults);
  check_schedule(config.optimizer, faults);
  check_train(config.train, faults);
  if (config.trains() && !config.train->max_steps && !config.train->epochs) {
    faults.add(config.document.section("train").origin.text(), "neither train.max_steps nor train.epochs is set",
               "set one of them");
  }
}

// [train] with a number where micro_batch is "auto", at the same place in the configuration.
config::Options<TrainOptions> train_options(const config::Document& document, bool& is_auto, Diagnostics& faults) {
  auto section = document.section("train");
  for (auto& entry : section.entries) {
    if (entry.key != "micro_batch" || entry.value != config::Value(std::string("auto"))) continue;
    entry.value = std::int64_t{1};
    is_auto = true;
  }
  return config::Options<TrainOptions>(std::move(section), faults);
}

// A path starts at the folder of the file that names it.
void make_resume_absolute(config::Options<CheckpointOptions>& options) {
  const auto& resume = options->resume;
  if (resume == "none" || resume == "auto") return;
  const auto* entry = options.section().find("resume");
  options.derive(&CheckpointOptions::resume, config::absolute_path(resume, entry->origin));
}

// A file there would be found out only when samples are tokenized.
void check_cache(const std::string& cache, const config::Options<RunOptions>& run, Diagnostics& faults) {
  if (cache.empty() || !is_there(cache) || is_folder(cache)) return;
  if (run->cache) {
    faults.add(run.where(&RunOptions::cache), cat("run.cache is ", cache, ", which is no folder"),
               "name a folder, which need not exist");
  } else {
    faults.add("CAPSTAN_CACHE", cat("it is ", cache, ", which is no folder"),
               "set it to a folder, which need not exist, or unset it");
  }
}

std::string device_for(const JobRequest& request, const RunOptions& run, const TrainOptions& train) {
  if (run.device != "auto") return run.device;
  return request.may_move && train.precision == "fp16" ? "cuda" : request.device;
}

// With a table for each plugin that a run opens without being told to and that has none.
config::Document with_defaults(const config::Document& document) {
  std::vector<config::Section> sections = document.of_commands();
  for (const auto& table : config::table_names()) sections.push_back(document.section(table));
  for (const auto& kind : config::group_names()) {
    const auto named = document.children(kind);
    sections.insert(sections.end(), named.begin(), named.end());
    for (const auto& name : plugin::opened_by_default(kind)) {
      const auto path = cat(kind, ".", name);
      const auto is_it = [&](const config::Section& section) { return section.path == path; };
      if (std::none_of(named.begin(), named.end(), is_it)) sections.push_back({path, {}, {}});
    }
  }
  return {document.file(), std::move(sections)};
}

}  // namespace

Configuration read_configuration(const JobRequest& request, Diagnostics& faults, const plugin::Host* host) {
  const auto is_command = [host](const std::string& table) { return host && host->has_table(table); };
  auto document = config::load(request.file, request.overrides, faults, is_command, request.settled.values);
  const bool is_run = request.phases && request.purpose == Purpose::train;  // only a rank is timed
  if (is_run && host) document = with_defaults(document);
  config::Options<RunOptions> run(document.section("run"), faults);
  bool auto_micro_batch = false;
  auto train = train_options(document, auto_micro_batch, faults);
  auto optimizer_table = document.section("optimizer");
  config::Options<OptimizerOptions> optimizer(
      config::take(optimizer_table, config::Options<OptimizerOptions>::schema()), faults);
  config::Options<CheckpointOptions> checkpoint(document.section("checkpoint"), faults);
  config::Options<CommOptions> comm(document.section("comm"), faults);
  make_resume_absolute(checkpoint);
  const auto name = run->name.value_or(config::name_of_run(request.file));
  const auto device = device_for(request, *run, *train);
  const auto cache = run->cache.value_or(request.cache);
  check_cache(cache, run, faults);
  Configuration config{request,
                       std::move(document),
                       std::move(run),
                       std::move(train),
                       std::move(optimizer),
                       std::move(checkpoint),
                       std::move(comm),
                       name,
                       device,
                       cache,
                       auto_micro_batch};
  check_host_tables(config, faults);
  check_precision(config.train, config.device, faults);
  return config;
}

}  // namespace capstan::setup
