#include <capstan/base/text.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "cells.h"
#include "page.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

using Points = std::vector<Point>;

constexpr double none = std::numeric_limits<double>::quiet_NaN();

// A series a run.
Chart of_runs(const std::vector<Run>& runs, Chart chart, const std::function<Points(const Run&)>& points) {
  for (const auto& run : runs) chart.series.push_back({run.name, points(run)});
  return chart;
}

Chart over_steps(const std::vector<Run>& runs, Chart chart, const std::function<double(const StepLine&)>& value) {
  return of_runs(runs, std::move(chart), [&](const Run& run) {
    Points points;
    for (const auto& step : run.steps) points.emplace_back(step.step, value(step));
    return points;
  });
}

double value_of(const StepLine& step, const std::string& name) {
  const auto found = step.values.find(name);
  return found == step.values.end() ? none : found->second;
}

// The sources of the runs' mixtures.
std::set<std::string> sources_of(const std::vector<Run>& runs) {
  constexpr std::string_view share = "share_";
  std::set<std::string> sources;
  for (const auto& run : runs) {
    for (const auto& step : run.steps) {
      for (const auto& [name, value] : step.values) {
        if (name.starts_with(share)) sources.insert(name.substr(share.size()));
      }
    }
  }
  return sources;
}

std::vector<Chart> charts_of_sources(const std::vector<Run>& runs) {
  std::vector<Chart> charts;
  for (const auto& source : sources_of(runs)) {
    charts.push_back(over_steps(runs, {cat("Training loss of ", source), "step", "loss", {}},
                                [&](const StepLine& step) { return value_of(step, "loss_" + source); }));
    charts.push_back(over_steps(runs, {cat("Share of ", source), "step", "share of the step's tokens", {}, true},
                                [&](const StepLine& step) { return value_of(step, "share_" + source); }));
  }
  return charts;
}

Points evaluation_losses(const Run& run) {
  Points points;
  for (const auto& evaluation : run.evaluations) {
    if (evaluation.split == "eval" && evaluation.loss) points.emplace_back(evaluation.step, *evaluation.loss);
  }
  return points;
}

Points gpu_memory(const Run& run) {
  Points points;
  if (const auto* samples = run.gpu0()) {
    for (const auto& sample : *samples) points.emplace_back(sample.seconds, sample.used_mib);
  }
  return points;
}

Points host_memory(const Run& run) {
  Points points;
  const auto* log = run.cpu();
  for (std::size_t i = 0; log && i < log->seconds.size(); ++i) points.emplace_back(log->seconds[i], log->real_mb[i]);
  return points;
}

// What a step computes in a second: not a table's Samples/s, which is the whole run's.
constexpr const char* step_rate = "samples/s (Callback): training steps only";

// A line for each run as its moving mean, with each step's rate pale below it where there are enough steps.
Chart throughput(const std::vector<Run>& runs) {
  constexpr std::size_t parts = 20;
  auto chart = over_steps(runs, {"Throughput", "step", step_rate, {}, true}, [](const StepLine& step) {
    return step.step_time_s > 0 ? static_cast<double>(step.samples) / step.step_time_s : none;
  });
  for (auto& series : chart.series) {
    const auto window = series.points.size() / parts;
    if (window < 2) continue;
    series.raw = series.points;
    series.points = smoothed(series.raw, window);
    chart.note = "Line: the mean of a twentieth of the run's steps around each; pale: each step";
  }
  return chart;
}

// Speed of the steps after the warm-up over the number of ranks, with what perfect scaling from the base would be.
Chart scaling(const std::vector<Run>& runs, const Run& base) {
  Chart chart{"Scaling", "GPUs", step_rate, {}, true};
  std::map<double, std::vector<double>> rates;
  for (const auto& run : runs) {
    if (const auto rate = training_samples_per_second(run)) rates[run.ranks].push_back(*rate);
  }
  if (rates.size() < 2) return chart;
  Series best{"the best run of each size", {}};
  Series ideal{cat("as fast a GPU as ", base.name), {}};
  const auto of_base = training_samples_per_second(base);
  for (const auto& [ranks, of_size] : rates) {
    best.points.emplace_back(ranks, *std::max_element(of_size.begin(), of_size.end()));
    if (of_base) ideal.points.emplace_back(ranks, *of_base * ranks / base.ranks);
  }
  chart.series = {best, ideal};
  return chart;
}

bool has_points(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(),
                     [](const Series& series) { return !thinned(series.points, 1).empty(); });
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<Run>& runs, const Run& base) {
  std::vector<Chart> charts{
      over_steps(runs, {"Training loss", "step", "loss", {}}, [](const StepLine& s) { return s.loss.value_or(none); }),
      of_runs(runs, {"Evaluation loss", "step", "loss", {}}, evaluation_losses),
      over_steps(runs, {"Learning rate", "step", "learning rate", {}, true}, [](const StepLine& s) { return s.lr; }),
      over_steps(runs, {"Gradient norm", "step", "norm before clipping", {}, true},
                 [](const StepLine& s) { return s.grad_norm.value_or(none); }),
      throughput(runs),
      of_runs(runs, {"GPU 0 memory over time", "seconds", "memory used (MiB)", {}, true, false}, gpu_memory),
      of_runs(runs,
              {"Host memory over time: the processes on rank 0's host", "seconds", "memory (MiB)", {}, true, false},
              host_memory),
      scaling(runs, base)};
  auto of_sources = charts_of_sources(runs);
  charts.insert(charts.begin() + 2, std::make_move_iterator(of_sources.begin()),
                std::make_move_iterator(of_sources.end()));
  std::erase_if(charts, [](const Chart& chart) { return !has_points(chart); });
  return charts;
}

}  // namespace report
