#include "session/micro_batch.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "session/gpu_fit.h"
#include "session/job.h"

namespace capstan::session {
namespace {

namespace fs = std::filesystem;
using setup::TrainOptions;

std::string size_text(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

bool can_choose(const setup::Configuration& config, Diagnostics& faults) {
  const auto& train = config.train;
  const auto where = train.where(&TrainOptions::micro_batch);
  const auto before = faults.size();
  if (config.device != "cuda") {
    faults.add(where, "train.micro_batch = \"auto\" on CPUs: memory of a micro-step is predicted only for GPUs",
               "give a number");
  } else if (!train->global_batch) {
    faults.add(where, "train.micro_batch = \"auto\" without train.global_batch, which it would change",
               "set train.global_batch");
  } else if (train->accumulation) {
    faults.add(train.where(&TrainOptions::accumulation),
               "train.accumulation and train.global_batch leave train.micro_batch = \"auto\" nothing to choose",
               "leave train.accumulation out; on the command line, train.accumulation= unsets what a file says");
  }
  return faults.size() == before;
}

// train.micro_batch of the run in one of these folders.
std::optional<std::int64_t> recorded_in(const std::vector<fs::path>& folders) {
  for (const auto& folder : folders) {
    const auto file = folder / "config.toml";
    if (!is_file(file)) continue;
    Diagnostics ignored;
    const auto train = config::load(file, {}, ignored).section("train");
    const auto* entry = train.find("micro_batch");
    const auto* number = entry ? std::get_if<std::int64_t>(&entry->value) : nullptr;
    if (number) return *number;
  }
  return {};
}

// What the run that this one continues has recorded; resume may name its folder, its checkpoints, or one of them.
std::optional<std::int64_t> recorded(const setup::Configuration& config) {
  const auto& resume = config.checkpoint->resume;
  if (resume == "none") return {};
  if (resume == "auto") return recorded_in({fs::path(config.run->dir) / config.name});
  const auto path = fs::path(resume).lexically_normal();
  return recorded_in({path, path.parent_path(), path.parent_path().parent_path()});
}

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

struct Chosen {
  std::int64_t micro_batch = 1;
  std::int64_t peak = 0;
  bool fits = false;
};

// The largest that fits, by halving: more rows never take less. Nothing where no prediction can be made, which
// the stages that follow say.
std::optional<Chosen> largest_that_fits(const setup::JobRequest& request, const std::vector<std::int64_t>& sizes,
                                        plugin::Host& host) {
  std::optional<Chosen> chosen;
  std::size_t begin = 0, end = sizes.size();
  while (begin < end) {
    const auto middle = begin + (end - begin) / 2;
    const auto job = predict_with(request, {cat("train.micro_batch=", sizes[middle])}, host);
    if (!job || !job->prediction.activations) return {};
    const auto peak = layout::total_bytes(job->prediction.footprints, "cuda");
    const bool fits = assembly::fits_into(request.gpu_room, peak);
    if (fits || middle == 0) chosen = Chosen{sizes[middle], peak, fits};
    (fits ? begin : end) = fits ? middle + 1 : middle;
  }
  return chosen;
}

// "strategy.NAME." of the table whose option `auto` is true; empty: there is none.
std::string automatic(const config::Document& document) {
  for (const auto& table : document.children("strategy")) {
    const auto* entry = table.find("auto");
    if (entry && entry->value == config::Value(true)) return table.path + ".";
  }
  return {};
}

using objective::Better;

using Metrics = std::map<std::string, Better>;

// What answers to a split are scored by, asked for with the first question that has an expected answer. Only of the
// usual scores it is known that more is better: a plugin's own may count errors.
Metrics scores_of(const assembly::Samples& samples, const data::DataSource& source) {
  constexpr std::int64_t most_asked = 100;
  const auto size = plugin::guard(samples.plugin, "size", [&] { return source.size(); });
  for (std::int64_t i = 0; i < std::min(most_asked, size); ++i) {
    const auto sample = samples.question(source, i);
    if (sample.references.empty()) continue;
    Metrics metrics;
    for (const auto& [name, score] :
         plugin::guard(samples.plugin, "score", [&] { return source.score(sample, std::string()); })) {
      const bool is_known = name == "exact_match" || name == "f1" || name == "accuracy";
      metrics["eval_" + name] = is_known ? Better::higher : Better::neither;
    }
    return metrics;
  }
  return {};
}

// A figure of a source that has nothing to evaluate on.
bool is_of_other_split(const assembly::LoadedPlugins& plugins, const std::string& figure) {
  const auto is_its = [&](const std::string& source) { return figure == "loss_" + source; };
  const auto& sources = plugins.data_parts.form.sources;
  const auto sets = plugins.data->object->evaluation_sets();  // those that have
  return std::any_of(sources.begin(), sources.end(), is_its) && std::none_of(sets.begin(), sets.end(), is_its);
}

// What evaluations give without asking questions.
Metrics losses_of(const assembly::LoadedPlugins& plugins, const assembly::Samples& samples) {
  Metrics metrics;
  const auto add = [&](const std::string& end) {
    metrics["eval_loss" + end] = Better::lower;
    if (!plugins.minimised) return;
    for (const auto& figure : plugins.minimised->plan().figures) {
      if (!is_of_other_split(plugins, figure.name)) metrics[cat("eval_", figure.name, end)] = figure.better;
    }
  };
  if (samples.eval) add("");
  for (const auto& set : samples.eval_sets) add("_" + set.name);
  return metrics;
}

bool is_lowest_best(const config::Options<setup::CheckpointOptions>& options, Better better, Diagnostics& faults) {
  using setup::CheckpointOptions;
  const bool is_auto = options->mode == "auto";
  const bool lowest = is_auto ? better != Better::higher : options->mode == "min";
  if (better == Better::neither && is_auto) {
    faults.add(
        options.where(&CheckpointOptions::metric),
        cat("checkpoint.metric is '", options->metric, "', and it is not known whether less or more of it is better"),
        R"(set checkpoint.mode = "min" or "max")");
  } else if (better != Better::neither && lowest != (better == Better::lower)) {
    faults.add(options.where(&CheckpointOptions::mode),
               cat("checkpoint.mode is \"", options->mode, "\", but the best ", options->metric, " is the ",
                   lowest ? "highest" : "lowest"),
               R"(remove checkpoint.mode, or set it to "auto")");
  }
  return lowest;
}

}  // namespace

void choose_micro_batch(setup::Configuration& config, const assembly::LoadedPlugins& plugins, plugin::Host& host,
                        Diagnostics& faults) {
  if (!config.auto_micro_batch || !config.trains() || !can_choose(config, faults) || !faults.empty()) return;
  const auto data_ranks = assembly::make_topology(config, plugins, faults).mesh.size(layout::sample_axes);
  if (!faults.empty()) return;  // no number divides the global batch
  const auto settle = [&](std::int64_t size, const std::string& why) {
    config.train.derive(&TrainOptions::micro_batch, size);
    config.micro_batch_note += cat("micro-batch auto: ", size, ", ", why, "\n");
  };
  const auto of_a_rank = *config.train->global_batch / data_ranks;
  if (const auto same = recorded(config); same && of_a_rank % *same == 0)
    return settle(*same, "as in the run that it continues");
  if (config.request.gpu_room <= 0) {
    faults.add(config.train.where(&TrainOptions::micro_batch),
               "train.micro_batch = \"auto\": it is not known into which GPU it must fit",
               "tell check of it with --gpu, such as --gpu h100-80g, or give a number");
    return;
  }
  const auto chosen = largest_that_fits(config.request, divisors_of(of_a_rank), host);
  if (!chosen) return;
  const auto room = size_text(config.request.gpu_room);
  settle(chosen->micro_batch,
         chosen->fits
             ? cat("the largest whose predicted ", size_text(chosen->peak), " fit into ", room, " with 5 % to spare")
             : cat("and its predicted ", size_text(chosen->peak), " do not fit well into ", room));
}

void choose_saving(setup::Configuration& config, plugin::Host& host, Diagnostics& faults) {
  const auto table = automatic(config.document);
  const auto request = config.request;
  if (table.empty() || !config.trains() || config.device != "cuda" || request.gpu_room <= 0) return;
  auto offers = plan::offers_of(host);
  offers.insert(offers.begin(), {{}, {"nothing", {table + "enabled=false"}}});
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [by, saving] : offers) {
    if (!saving.overrides.front().starts_with(table)) continue;
    auto other = request;
    other.overrides.push_back(table + "auto=false");
    other.overrides.insert(other.overrides.end(), saving.overrides.begin(), saving.overrides.end());
    const auto job = predict_with(other, {}, host);
    if (!job || !job->prediction.activations) continue;
    const auto peak = layout::total_bytes(job->prediction.footprints, "cuda");
    if (peak >= least) continue;
    least = peak;
    config = setup::read_configuration(other, faults, &host);
    const bool fits = assembly::fits_into(request.gpu_room, peak);
    config.micro_batch_note = cat(table, "auto: ", saving.words, ", and the predicted ", size_text(peak),
                                  fits ? " fit into " : " do not fit well into ", size_text(request.gpu_room), "\n");
    if (fits) return;
  }
}

// The first rank's prediction decides, so that all ranks decide alike.
void choose_regather(setup::Configuration& config, const assembly::LoadedPlugins& plugins, plugin::Host& host,
                     const Diagnostics& faults) {
  auto request = config.request;
  Diagnostics of_topology;
  if (config.train->regather != "auto" || request.gpu_room <= 0 || !faults.empty() ||
      !assembly::make_topology(config, plugins, of_topology).gathers_once)
    return;
  request.rank = 0;
  if (config.auto_micro_batch) request.overrides.push_back(cat("train.micro_batch=", *config.train->micro_batch));
  const auto job = predict_with(request, {"train.regather=step"}, host);
  if (!job || !job->prediction.activations) return;
  const auto peak = layout::total_bytes(job->prediction.footprints, "cuda");
  if (assembly::fits_into(request.gpu_room, peak)) return;
  config.train.derive(&TrainOptions::regather, std::string("micro_step"));
  config.micro_batch_note += cat("regather auto: micro_step, since with step the predicted ", size_text(peak),
                                 " would not fit well into ", size_text(request.gpu_room), "\n");
}

void choose_mode(const setup::Configuration& config, const assembly::LoadedPlugins& plugins, assembly::Samples& samples,
                 Diagnostics& faults) {
  const auto& options = config.checkpoint;
  if (!config.trains() || !assembly::goes_by_metric(config) || !samples.has_eval()) return;
  auto metrics = losses_of(plugins, samples);
  const bool asks = samples.eval && !metrics.contains(options->metric);
  if (asks) metrics.merge(scores_of(samples, *samples.eval));
  const auto where = options.where(&setup::CheckpointOptions::metric);
  if (!metrics.contains(options->metric)) {
    std::vector<std::string> names;
    for (const auto& [name, better] : metrics) names.push_back(name);
    faults.add(where, cat("checkpoint.metric is '", options->metric, "', which the evaluations do not give"),
               suggestion(options->metric, names));
  } else if (asks && (!config.train->generate_each_eval || config.train->generate_samples == 0)) {
    faults.add(where, cat("checkpoint.metric is '", options->metric, "', but evaluations answer no questions"),
               "set train.generate_each_eval = true and train.generate_samples = -1, or take eval_loss");
  } else {
    samples.lowest_is_best = is_lowest_best(options, metrics.at(options->metric), faults);
  }
}

}  // namespace capstan::session
