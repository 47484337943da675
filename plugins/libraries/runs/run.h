#pragma once
#include <capstan/config/value.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runs/memory_use.h"

namespace runs {

/// A step of metrics.jsonl.
struct StepLine {
  std::int64_t step = 0;   ///< from 0
  std::int64_t steps = 0;  ///< in the whole run; 0: the line does not say
  std::optional<double> loss;
  double lr = 0;
  std::optional<double> grad_norm;
  std::int64_t samples = 0;
  double step_time_s = 0;
  std::map<std::string, double> values;  ///< all other numbers of the line, monitors' too
};

/// An evaluation of metrics.jsonl.
struct EvaluationLine {
  std::int64_t step = 0;  ///< steps done
  double epoch = 0;
  std::string split;
  std::optional<double> loss;
  std::int64_t samples = 0;
  double runtime_s = 0;
  std::map<std::string, double> scores;
};

/// What a run's folder says. A run that has not ended, or did not end well, has no summary yet.
struct Run {
  std::filesystem::path folder;
  std::string name;
  int ranks = 1;
  int nodes = 1;
  std::vector<std::string> hosts;  ///< each rank's; empty: not known
  std::vector<StepLine> steps;
  std::vector<EvaluationLine> evaluations;
  bool has_summary = false;
  std::map<std::string, double> summary;  ///< numbers of summary.json; those of inner objects as "outer.inner"
  std::vector<double> device_peaks;       ///< each rank's, bytes; 0 on CPUs
  std::vector<double> host_peaks;         ///< each rank's process's, bytes
  std::map<std::string, capstan::config::Value> options;  ///< config.toml: "train.micro_batch"
  std::vector<GpuLog> gpu_logs;
  std::vector<CpuLog> cpu_logs;

  /// A number of summary.json by its name, wherever in the file it stands.
  std::optional<double> number(const std::string& key) const;
  /// An option that is a number.
  std::optional<double> option(const std::string& key) const;
  /// An option as text; empty where it is not set.
  std::string option_text(const std::string& key) const;
  /// The same, as the strategy that has such an option names it: its "stage".
  std::string strategy_text(const std::string& key) const;
  /// Did it compute on CPUs?
  bool on_cpus() const;
  /// GPU 0 of rank 0's host; null: no log.
  const std::vector<GpuMemorySample>* gpu0() const;
  /// The log of rank 0's host; null: none.
  const CpuLog* cpu() const;
};

/// Reads a run's folder: config.toml, metrics.jsonl, summary.json, launch.json, gpu_memory/ and cpu_memory/; only
/// config.toml must be there. A last line of metrics.jsonl that is still being written is left out. Throws Error
/// that says what is wrong with which file.
Run read_run(const std::filesystem::path& folder);

/// The same without metrics.jsonl.
Run read_run_but_metrics(const std::filesystem::path& folder);
/// Adds the whole lines of metrics.jsonl from byte `begin` on, and returns where the first one that is not whole
/// begins. From the beginning again where the file has become shorter.
std::uintmax_t read_more_metrics(const std::filesystem::path& file, std::uintmax_t begin, Run& run);

/// All of them, with names that differ: a name that several have is followed by its folder's.
std::vector<Run> read_runs(const std::vector<std::string>& folders);

}  // namespace runs
