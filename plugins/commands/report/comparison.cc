#include "comparison.h"

#include <capstan/base/text.h>
#include <capstan/record/run_holder.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "runs/numbers.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

struct Difference {
  std::string option;
  std::string here;
  std::string of_base;
};

std::string shown(const Run& run, const std::string& option) {
  const auto found = run.options.find(option);
  return found == run.options.end() ? "not set" : config::value_text(found->second);
}

// The options that say most come first: a model of another kind differs in many.
std::vector<Difference> differences(const Run& run, const Run& base, const std::string& table,
                                    const std::vector<std::string>& grows) {
  std::vector<std::string> keys{table + "plugin", table + "path", table + "preset", table + "train"};
  for (const auto* one : {&run, &base}) {
    for (const auto& [key, value] : one->options) {
      if (key.starts_with(table)) keys.push_back(key);
    }
  }
  std::vector<Difference> found;
  std::set<std::string> seen(grows.begin(), grows.end());
  seen.insert("data.cache");  // where samples are kept changes none of them
  for (const auto& key : keys) {
    if (!seen.insert(key).second) continue;
    const auto here = shown(run, key);
    const auto there = shown(base, key);
    if (here != there) found.push_back({key, here, there});
  }
  return found;
}

std::vector<Difference> batch_differences(const Run& run, const Run& base) {
  const std::string global = "train.global_batch";
  const auto of_rank = [](const Run& one) {
    return one.option("train.micro_batch").value_or(0) * one.option("train.accumulation").value_or(0);
  };
  if (of_rank(run) == of_rank(base) || !run.option(global) || !base.option(global)) return {};
  if (run.option(global) == base.option(global)) return {};
  return {{global, shown(run, global), shown(base, global)}};
}

// One sentence on all runs that differ from the base in `what`.
void add_sentence(const std::string& what, const Run& base, const std::vector<std::pair<std::string, Difference>>& all,
                  std::vector<std::string>& sentences) {
  if (all.empty()) return;
  const auto& [name, first] = all.front();
  sentences.push_back(cat("the table mixes ", what, ": in ", name, " ", first.option, " is ", first.here, ", in ",
                          base.name, " ", first.of_base,
                          all.size() > 1 ? cat("; ", all.size() - 1, " more differ from it, too") : ""));
}

struct Length {
  double steps = 0;
  double samples = 0;
};

Length length_of(const Run& run) {
  Length length{static_cast<double>(run.steps.back().step + 1), 0};
  for (const auto& step : run.steps) length.samples += static_cast<double>(step.samples);
  if (const auto all = run.number("samples")) length.samples = *all;
  return length;
}

bool about_equal(double a, double b) {
  constexpr double tolerance = 0.02;  // an epoch's last batch may be dropped
  return std::abs(a - b) <= tolerance * std::max(a, b);
}

std::string unequal_lengths(const std::vector<Run>& runs, const Run& base) {
  if (base.steps.empty()) return {};
  const auto of_base = length_of(base);
  std::vector<std::string> others;
  for (const auto& run : runs) {
    if (run.steps.empty()) continue;
    const auto length = length_of(run);
    if (about_equal(length.steps, of_base.steps) || about_equal(length.samples, of_base.samples)) continue;
    others.push_back(cat(run.name, " took ", fixed(length.steps, 0)));
  }
  if (others.empty()) return {};
  return cat("runs of unequal length: ", join(others), " steps, ", base.name, " ", fixed(of_base.steps, 0),
             "; their losses do not compare");
}

// Where an option's table stands in the order of what says most.
std::size_t weight_of(const std::string& option) {
  constexpr std::array tables{"optimizer", "train", "objective", "strategy", "model", "data"};
  const auto table = option.substr(0, option.find('.'));
  return static_cast<std::size_t>(std::find(tables.begin(), tables.end(), table) - tables.begin());
}

bool is_compared(const std::string& option) {
  constexpr std::array places{"run.name", "run.dir", "run.cache", "data.cache"};
  return !option.starts_with("monitor.") && std::find(places.begin(), places.end(), option) == places.end();
}

std::optional<double> eval_loss_of(const Run& run) {
  const auto found = std::find_if(run.evaluations.rbegin(), run.evaluations.rend(),
                                  [](const EvaluationLine& line) { return line.split == "eval" && line.loss; });
  return found == run.evaluations.rend() ? std::nullopt : found->loss;
}

std::optional<double> train_loss_of(const Run& run) { return run.number("train_loss"); }

std::optional<double> last_loss_of(const Run& run) { return run.steps.empty() ? std::nullopt : run.steps.back().loss; }

struct Measure {
  const char* column;
  std::optional<double> (*of)(const Run&);
};

// Nothing where a run lacks it.
std::optional<std::vector<double>> losses_by(const Measure& measure, const std::vector<Run>& runs) {
  std::vector<double> losses;
  for (const auto& run : runs) {
    const auto loss = measure.of(run);
    if (!loss) return {};
    losses.push_back(*loss);
  }
  return losses;
}

}  // namespace

std::vector<std::string> what_is_mixed(const std::vector<Run>& runs, const Run& base,
                                       const std::vector<std::string>& grows) {
  std::array<std::vector<std::pair<std::string, Difference>>, 3> differing;
  for (const auto& run : runs) {
    const std::array<std::vector<Difference>, 3> found{
        differences(run, base, "model.", grows), differences(run, base, "data.", grows), batch_differences(run, base)};
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i].empty()) differing[i].emplace_back(run.name, found[i].front());
    }
  }
  std::vector<std::string> sentences;
  add_sentence("models", base, differing[0], sentences);
  add_sentence("data", base, differing[1], sentences);
  add_sentence("batch sizes", base, differing[2], sentences);
  if (auto unequal = unequal_lengths(runs, base); !unequal.empty()) sentences.push_back(std::move(unequal));
  return sentences;
}

std::vector<std::string> differing_options(const std::vector<Run>& runs) {
  std::set<std::string> options;
  for (const auto& run : runs) {
    for (const auto& [option, value] : run.options) options.insert(option);
  }
  const auto differs = [&](const std::string& option) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const Run& run) { return shown(run, option) != shown(runs.front(), option); });
  };
  std::vector<std::string> found;
  for (const auto& option : options) {
    if (is_compared(option) && differs(option)) found.push_back(option);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return weight_of(a) < weight_of(b); });
  return found;
}

std::optional<Best> best_of(const std::vector<Run>& runs) {
  constexpr std::array measures{Measure{"Eval Loss (Final)", eval_loss_of}, Measure{"Train Loss", train_loss_of},
                                Measure{"Last Loss", last_loss_of}};
  if (runs.size() < 2) return {};
  for (const auto& run : runs) {
    if (!differences(run, runs.front(), "data.", {}).empty()) return {};
  }
  for (const auto& measure : measures) {
    const auto losses = losses_by(measure, runs);
    if (!losses) continue;
    const auto lowest = std::min_element(losses->begin(), losses->end());
    if (std::count(losses->begin(), losses->end(), *lowest) > 1) return {};
    return Best{static_cast<std::size_t>(lowest - losses->begin()), cat("the lowest ", measure.column)};
  }
  return {};
}

std::string progress_of(const Run& run) {
  using State = record::HolderSeen::State;
  if (run.has_summary) return {};
  const auto writer = record::holder_seen(run.folder);
  std::string state = "it did not reach its end";
  if (writer.state == State::lives) state = "under way";
  if (writer.state == State::gone) state = cat("killed: ", writer.name, " is gone");
  if (run.steps.empty()) return cat(run.name, ": no step is done, ", state);
  const auto& last = run.steps.back();
  return cat(run.name, ": step ", last.step + 1, last.steps > 0 ? cat(" of ", last.steps) : "", ", ", state);
}

}  // namespace report
