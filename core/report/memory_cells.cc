// The cells about memory and utilisation.
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>

#include "report/cells.h"

namespace capstan::report {
namespace {

constexpr double mib_of_gib = 1024;
constexpr double bytes_of_gib = 1024.0 * 1024 * 1024;

std::string no_gpu_log(const Run& run) {
  if (run.option_text("run.device") == "cpu" || (!run.device_peaks.empty() && run.device_peaks.front() <= 0))
    return "the run computed on CPUs";
  return "the run has no gpu_memory/*.csv: [monitor.memory_log] writes it, or nvidia-smi beside the run";
}

constexpr const char* no_cpu_log =
    "the run has no cpu_memory/*.txt: [monitor.memory_log] writes it, or psrecord beside the run";

std::string no_utilisation(const Run& run) {
  if (run.option_text("run.device") == "cpu" || (!run.device_peaks.empty() && run.device_peaks.front() <= 0))
    return "the run computed on CPUs";
  return "summary.json has no such mean: [monitor.utilisation] writes it";
}

std::optional<Usage> gpu_usage(const Run& run) {
  const auto* samples = run.gpu0();
  if (!samples || samples->empty()) return {};
  std::vector<double> used;
  for (const auto& sample : *samples) used.push_back(sample.used_mib);
  return usage_of(used);
}

std::string modes_text(const Usage& usage) {
  std::vector<std::string> texts;
  for (const double mode : usage.modes) texts.push_back(number_text(mode));
  return join(texts);
}

Cell gpu_cell(const Run& run, double Usage::*member, double per, int decimals) {
  const auto usage = gpu_usage(run);
  return usage ? cell(fixed((*usage).*member / per, decimals)) : no_cell(no_gpu_log(run));
}

Cell cpu_cell(const Run& run, double Usage::*member, int decimals) {
  const auto* log = run.cpu();
  return log ? cell(fixed(usage_of(log->real_mb).*member, decimals)) : no_cell(no_cpu_log);
}

Cell mean_cell(const Run& run, const char* name, double per, int decimals) {
  const auto mean = run.number(name);
  return mean ? cell(fixed(*mean / per, decimals)) : no_cell(no_utilisation(run));
}

}  // namespace

std::optional<double> gpu0_peak_mib(const Run& run) {
  const auto usage = gpu_usage(run);
  if (!usage) return {};
  return usage->peak;
}

Cell allocated_peak_gb_cell(const Run& run, const Run&) {
  const auto most = std::max_element(run.device_peaks.begin(), run.device_peaks.end());
  if (most == run.device_peaks.end()) return no_cell("the run has not ended: it has no summary.json");
  if (*most <= 0) return no_cell("the run computed on CPUs");
  return cell(fixed(*most / bytes_of_gib, 2));
}

Cell allocated_mb_cell(const Run& run, const Run&) { return mean_cell(run, "avg_mem_alloc_MB", 1, 0); }
Cell allocated_gb_cell(const Run& run, const Run&) { return mean_cell(run, "avg_mem_alloc_MB", mib_of_gib, 2); }
Cell used_gb_cell(const Run& run, const Run&) { return gpu_cell(run, &Usage::peak, mib_of_gib, 2); }
Cell utilisation_cell(const Run& run, const Run&) { return mean_cell(run, "avg_gpu_util_%", 1, 1); }
Cell gpu_peak_cell(const Run& run, const Run&) { return gpu_cell(run, &Usage::peak, 1, 0); }
Cell gpu_average_cell(const Run& run, const Run&) { return gpu_cell(run, &Usage::average, 1, 2); }
Cell gpu_peak_gib_cell(const Run& run, const Run&) { return gpu_cell(run, &Usage::peak, mib_of_gib, 2); }
Cell gpu_average_gib_cell(const Run& run, const Run&) { return gpu_cell(run, &Usage::average, mib_of_gib, 2); }

Cell gpu_mode_cell(const Run& run, const Run&) {
  const auto usage = gpu_usage(run);
  return usage ? cell(modes_text(*usage)) : no_cell(no_gpu_log(run));
}

Cell memory_scale_cell(const Run& run, const Run& base) {
  const auto own = gpu0_peak_mib(run);
  const auto first = gpu0_peak_mib(base);
  if (!own || !first || *own <= 0) return no_cell(no_gpu_log(own ? base : run));
  return cell(fixed(*first / *own, 2));
}

Cell cpu_peak_cell(const Run& run, const Run&) { return cpu_cell(run, &Usage::peak, 0); }
Cell cpu_average_cell(const Run& run, const Run&) { return cpu_cell(run, &Usage::average, 2); }

Cell cpu_mode_cell(const Run& run, const Run&) {
  const auto* log = run.cpu();
  if (!log) return no_cell(no_cpu_log);
  auto whole = log->real_mb;  // psrecord writes kilobytes, of which hardly two are alike
  for (double& value : whole) value = std::round(value);
  return cell(modes_text(usage_of(whole)));
}

}  // namespace capstan::report
