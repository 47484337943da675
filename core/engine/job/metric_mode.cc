#include "job/metric_mode.h"

#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace capstan::job {
namespace {

using objective::Better;

using Metrics = std::map<std::string, Better>;

// What answers to a split are scored by, asked for with the first question that has an expected answer. Only of the
// usual scores it is known that more is better: a plugin's own may count errors.
Metrics scores_of(const Samples& samples, const data::DataSource& source) {
  constexpr std::int64_t most_asked = 100;
  const auto size = samples.size(source);
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
bool is_of_other_split(const Plugins& plugins, const std::string& figure) {
  const auto is_its = [&](const std::string& source) { return figure == "loss_" + source; };
  const auto& sources = plugins.data_parts.form.sources;
  const auto sets = plugins.data->object->evaluation_sets();  // the ones with a name
  return std::any_of(sources.begin(), sources.end(), is_its) && std::none_of(sets.begin(), sets.end(), is_its);
}

// What evaluations give without asking questions.
Metrics losses_of(const Plugins& plugins, const Samples& samples) {
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

// The answer of checkpoint.mode, or where that is "auto" of the metric itself.
bool judge_mode(const config::Options<setup::CheckpointOptions>& options, Better better, Diagnostics& faults) {
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

bool lowest_is_best(const setup::Configuration& config, const Plugins& plugins, const Samples& samples,
                    Diagnostics& faults) {
  const auto& options = config.checkpoint;
  if (!config.trains() || !goes_by_metric(config) || !samples.has_eval()) return true;
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
    return judge_mode(options, metrics.at(options->metric), faults);
  }
  return true;
}

}  // namespace capstan::job
