#include "assembly/samples.h"

#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <string>
#include <vector>

namespace capstan::assembly {
namespace {

// Names of what answers to a split are scored by, asked for with the first question that has an expected answer.
std::vector<std::string> score_names(const Samples& samples, const data::DataSource& source) {
  constexpr std::int64_t most_asked = 100;
  const auto size = plugin::guard(samples.plugin, "size", [&] { return source.size(); });
  for (std::int64_t i = 0; i < std::min(most_asked, size); ++i) {
    const auto sample = samples.question(source, i);
    if (sample.references.empty()) continue;
    std::vector<std::string> names;
    for (const auto& [name, score] :
         plugin::guard(samples.plugin, "score", [&] { return source.score(sample, std::string()); }))
      names.push_back("eval_" + name);
    return names;
  }
  return {};
}

// What evaluations give without asking questions.
std::vector<std::string> loss_names(const LoadedPlugins& plugins, const Samples& samples) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& end) {
    names.push_back("eval_loss" + end);
    if (!plugins.minimised) return;
    for (const auto& figure : plugins.minimised->plan().figures) names.push_back(cat("eval_", figure.name, end));
  };
  if (samples.eval) add("");
  for (const auto& set : samples.eval_sets) add("_" + set.name);
  return names;
}

}  // namespace

bool goes_by_metric(const setup::Configuration& config) {
  return config.checkpoint->keep_best || config.train->stop_after_evals > 0;
}

void check_metric(const setup::Configuration& config, const LoadedPlugins& plugins, const Samples& samples,
                  Diagnostics& faults) {
  const auto& options = config.checkpoint;
  if (!config.trains() || !goes_by_metric(config) || !samples.has_eval()) return;
  auto names = loss_names(plugins, samples);
  const auto has = [&](const auto& list) { return std::find(list.begin(), list.end(), options->metric) != list.end(); };
  if (has(names)) return;
  const auto scores = samples.eval ? score_names(samples, *samples.eval) : std::vector<std::string>();
  const auto& train = *config.train;
  const bool answers = train.generate_each_eval && train.generate_samples != 0;
  if (has(scores) && answers) return;
  names.insert(names.end(), scores.begin(), scores.end());
  const auto where = options.where(&setup::CheckpointOptions::metric);
  if (has(scores)) {
    faults.add(where, cat("checkpoint.metric is '", options->metric, "', but evaluations answer no questions"),
               "set train.generate_each_eval = true and train.generate_samples = -1, or take eval_loss");
  } else {
    faults.add(where, cat("checkpoint.metric is '", options->metric, "', which the evaluations do not give"),
               suggestion(options->metric, names));
  }
}

}  // namespace capstan::assembly
