#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>

#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace utilisation {

struct UtilisationOptions {
  double interval_s = 0.5;

  static void describe(capstan::config::OptionTable<UtilisationOptions>& t) {
    t.add("interval_s", &UtilisationOptions::interval_s)
        .min(0.05)
        .max(1e8)
        .doc("seconds between two samples of the GPU");
  }
};

/// The rank's GPU as the driver sees it, all processes together.
struct GpuNow {
  double percent = 0;  ///< share of the last sample period in which a kernel ran
  double used_mb = 0;
};

/// The rank's memory as LibTorch's allocator sees it, or, on a CPU rank, as the system does.
struct MemoryNow {
  double allocated_mb = 0;  ///< in tensors; on a CPU rank the resident set
  double reserved_mb = 0;   ///< what the allocator keeps from the GPU; unused on a CPU rank
  double peak_mb = 0;       ///< the most of the first one since the run's first step; on a CPU rank the process's
};

/// Mean and standard deviation of numbers that come one by one (Welford 1962).
class Moments {
 public:
  void add(double number);
  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double deviation() const;  ///< that of the numbers themselves, not an estimate; 0 without any

 private:
  std::int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

/// Where the numbers come from. MB are 2^20 bytes, as nvidia-smi's MiB.
struct Probes {
  std::function<std::optional<GpuNow>()> gpu;  ///< called by the thread that samples; empty: no GPU
  std::function<MemoryNow()> memory;           ///< called after each step, and on a CPU rank at the end
};

/// A rank's memory after each step, and its GPU every interval_s in a thread of its own, from start() to stop().
class Utilisation {
 public:
  Utilisation(const UtilisationOptions& options, Probes probes);
  void start();
  void stop();
  /// mem_alloc_MB, mem_reserved_MB, mem_peak_MB, and the last sample's mem_total_MB and gpu_util_%; on a CPU rank
  /// mem_rss_MB.
  capstan::monitor::Values step_ended();
  /// Means over steps and samples: avg_mem_alloc_MB, avg_mem_reserved_MB, peak_mem_alloc_MB, avg_mem_total_MB,
  /// avg_gpu_util_%, std_gpu_util_%; on a CPU rank avg_mem_rss_MB, peak_mem_rss_MB (until now). No peak lies below what
  /// a step had.
  capstan::monitor::Values summary();

 private:
  void sample(const std::stop_token& ends);
  void note_peak(const MemoryNow& now);
  UtilisationOptions options_;
  Probes probes_;
  Moments allocated_;
  Moments reserved_;
  double peak_mb_ = 0;
  std::mutex mutex_;  // guards what follows
  Moments used_;
  Moments percent_;
  std::optional<GpuNow> last_;
  std::jthread thread_;  // ends first
};

/// The summary's lines: a name and its mean over ranks each; empty if there are none of ours.
std::string summary_lines(const capstan::monitor::Summary& summary, int ranks);

}  // namespace utilisation
