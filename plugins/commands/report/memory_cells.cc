// The cells about memory and utilisation.
#include <algorithm>

#include "cells.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

constexpr double mib_of_gib = 1024;
constexpr double bytes_of_gib = 1024.0 * 1024 * 1024;

std::string no_gpu_log(const Run& run) {
  if (run.on_cpus()) return "the run computed on CPUs";
  return "the run has no gpu_memory/*.csv: [monitor.memory_log] writes it, or nvidia-smi beside the run";
}

constexpr const char* no_cpu_log =
    "the run has no cpu_memory/*.txt: [monitor.memory_log] writes it, or psrecord beside the run";

std::string no_utilisation(const Run& run) {
  if (run.on_cpus()) return "the run computed on CPUs";
  return "summary.json has no such mean: [monitor.utilisation] writes it";
}

std::optional<MemoryUse> gpu_use(const Run& run) {
  const auto* samples = run.gpu0();
  if (!samples || samples->empty()) return {};
  return memory_use(*samples);
}

Cell gpu_cell(const Run& run, double MemoryUse::*member, double per, int decimals) {
  const auto use = gpu_use(run);
  return use ? cell(fixed((*use).*member / per, decimals)) : no_cell(no_gpu_log(run));
}

Cell cpu_cell(const Run& run, double MemoryUse::*member, int decimals) {
  const auto* log = run.cpu();
  return log ? cell(fixed(memory_use(log->real_mb).*member, decimals)) : no_cell(no_cpu_log);
}

Cell mean_cell(const Run& run, const char* name, double per, int decimals) {
  const auto mean = run.number(name);
  return mean ? cell(fixed(*mean / per, decimals)) : no_cell(no_utilisation(run));
}

}  // namespace

Cell allocated_peak_gb_cell(const Run& run, const Run&) {
  const auto most = std::max_element(run.device_peaks.begin(), run.device_peaks.end());
  if (most == run.device_peaks.end()) return no_cell("the run has not ended: it has no summary.json");
  if (*most <= 0) return no_cell("the run computed on CPUs");
  return cell(fixed(*most / bytes_of_gib, 2));
}

Cell host_peak_gb_cell(const Run& run, const Run&) {
  const auto most = std::max_element(run.host_peaks.begin(), run.host_peaks.end());
  if (most == run.host_peaks.end()) return no_cell("the run has not ended: it has no summary.json");
  if (*most <= 0) return no_cell("summary.json does not say what the processes took");
  return cell(fixed(*most / bytes_of_gib, 2));
}

Cell allocated_mb_cell(const Run& run, const Run&) { return mean_cell(run, "avg_mem_alloc_MB", 1, 0); }
Cell allocated_gb_cell(const Run& run, const Run&) { return mean_cell(run, "avg_mem_alloc_MB", mib_of_gib, 2); }
Cell utilisation_cell(const Run& run, const Run&) { return mean_cell(run, "avg_gpu_util_%", 1, 1); }
Cell gpu_peak_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::peak, 1, 0); }
Cell gpu_average_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::mean, 1, 2); }
Cell gpu_peak_gib_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::peak, mib_of_gib, 2); }
Cell gpu_average_gib_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::mean, mib_of_gib, 2); }

Cell gpu_mode_cell(const Run& run, const Run&) {
  const auto use = gpu_use(run);
  return use ? cell(modes_text(*use)) : no_cell(no_gpu_log(run));
}

Cell memory_scale_cell(const Run& run, const Run& base) {
  const auto own = gpu_use(run);
  const auto first = gpu_use(base);
  if (!own || !first || own->peak <= 0) return no_cell(no_gpu_log(own ? base : run));
  return cell(fixed(first->peak / own->peak, 2));
}

Cell cpu_peak_cell(const Run& run, const Run&) { return cpu_cell(run, &MemoryUse::peak, 0); }
Cell cpu_average_cell(const Run& run, const Run&) { return cpu_cell(run, &MemoryUse::mean, 2); }

Cell cpu_mode_cell(const Run& run, const Run&) {
  const auto* log = run.cpu();
  return log ? cell(modes_text(memory_use(log->real_mb))) : no_cell(no_cpu_log);
}

}  // namespace report
