#pragma once
#include <capstan/config/options.h>

#include <cstdint>
#include <string>

namespace preflight {

/// [preflight]
struct PreflightOptions {
  std::string before_run = "auto";
  double min_bus_gbps = 0;
  std::int64_t gate_mib = 4096;
  std::int64_t gate_warmup = 20;
  std::int64_t gate_iterations = 50;
  std::int64_t largest_mib = 1024;
  std::int64_t pair_mib = 32;
  std::int64_t gemm_size = 0;
  double gemm_seconds = 0.5;
  double least_share = 0.8;
  std::int64_t write_mib = 256;
  double min_free_gib = 10;
  double max_skew_s = 1;
  /// Whether `run` measures something first: the gate, or all.
  bool measures_before_run() const { return before_run == "auto" ? min_bus_gbps > 0 : before_run != "off"; }
  static void describe(capstan::config::OptionTable<PreflightOptions>& t);
};

/// Adds the faults of the table that no option's range says.
void check_options(const capstan::config::Options<PreflightOptions>& options, capstan::Diagnostics& faults);

}  // namespace preflight
