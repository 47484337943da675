#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "cells.h"
#include "page.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

using OfStep = std::function<double(const Step&)>;

Chart over_steps(const std::vector<Run>& runs, Chart chart, const OfStep& value) {
  chart.x = "step";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{runs[i].name, {}, static_cast<int>(i)};
    for (const auto& step : runs[i].steps) series.points.emplace_back(static_cast<double>(step.step), value(step));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart evaluation_loss(const std::vector<Run>& runs) {
  Chart chart{"Evaluation loss", "step", "loss", {}, false};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{runs[i].name, {}, static_cast<int>(i)};
    for (const auto& evaluation : runs[i].evaluations) {
      if (evaluation.split == "eval" && evaluation.loss)
        series.points.emplace_back(static_cast<double>(evaluation.step), *evaluation.loss);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart memory_over_time(const std::vector<Run>& runs) {
  Chart chart{"GPU 0 memory over time", "seconds", "memory used (MiB)", {}, true, false};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{runs[i].name, {}, static_cast<int>(i)};
    if (const auto* samples = runs[i].gpu0()) {
      for (const auto& sample : *samples) series.points.emplace_back(sample.seconds, sample.used_mib);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart host_memory_over_time(const std::vector<Run>& runs) {
  Chart chart{"Host memory over time, of the processes on rank 0's host", "seconds", "memory (MiB)", {}, true, false};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{runs[i].name, {}, static_cast<int>(i)};
    if (const auto* log = runs[i].cpu()) {
      for (std::size_t n = 0; n < log->seconds.size(); ++n)
        series.points.emplace_back(log->seconds[n], log->real_mb[n]);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// What a step computes in a second: not a table's Samples/s, which is of the whole run.
constexpr const char* step_rate = "samples/s (Callback): of steps alone";

// Of steps after the warm-up over the number of ranks, with what perfect scaling from the base would be.
Chart scaling(const std::vector<Run>& runs, const Run& base) {
  Chart chart{"Scaling", "GPUs", step_rate, {}, true};
  std::map<double, std::vector<double>> rates;
  for (const auto& run : runs) {
    if (const auto rate = training_samples_per_second(run)) rates[run.ranks].push_back(*rate);
  }
  if (rates.size() < 2) return chart;
  Series best{"the best run of each size", {}, 0};
  Series ideal{cat("as fast a GPU as ", base.name), {}, 1};
  const auto of_base = training_samples_per_second(base);
  for (const auto& [ranks, of_size] : rates) {
    best.points.emplace_back(ranks, *std::max_element(of_size.begin(), of_size.end()));
    if (of_base) ideal.points.emplace_back(ranks, *of_base * ranks / base.ranks);
  }
  chart.series = {best, ideal};
  return chart;
}

bool has_points(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const Series& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const auto& point) { return std::isfinite(point.second); });
  });
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<Run>& runs, const Run& base) {
  const auto rate = [](const Step& step) {
    return step.step_time_s > 0 ? static_cast<double>(step.samples) / step.step_time_s : none;
  };
  std::vector<Chart> charts{
      over_steps(runs, {"Training loss", "", "loss", {}, false}, [](const Step& s) { return s.loss.value_or(none); }),
      evaluation_loss(runs),
      over_steps(runs, {"Learning rate", "", "learning rate", {}, true}, [](const Step& s) { return s.lr; }),
      over_steps(runs, {"Gradient norm", "", "norm before clipping", {}, true},
                 [](const Step& s) { return s.grad_norm.value_or(none); }),
      over_steps(runs, {"Throughput", "", step_rate, {}, true}, rate),
      memory_over_time(runs),
      host_memory_over_time(runs),
      scaling(runs, base)};
  std::erase_if(charts, [](const Chart& chart) { return !has_points(chart); });
  return charts;
}

}  // namespace report
