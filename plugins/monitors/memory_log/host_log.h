#pragma once
#include <capstan/base/line_file.h>
#include <capstan/config/options.h>
#include <capstan/monitor_parts/process_tree.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace memory_log {

struct MemoryLogOptions {
  std::optional<double> interval_s;

  static void describe(capstan::config::OptionTable<MemoryLogOptions>& t) {
    t.add("interval_s", &MemoryLogOptions::interval_s)
        .min(0.1)
        .max(1e8)
        .doc(
            "seconds between two lines of the logs; not set: what a step takes, or a thousandth of the run, at least "
            "0.1 "
            "and at most 5");
  }
};

/// A GPU of the host, all processes together; sizes in MiB.
struct GpuMemory {
  int index = 0;
  std::string name;
  std::int64_t used = 0;
  std::int64_t total = 0;
};

/// Where the numbers come from.
struct HostProbes {
  std::function<std::vector<GpuMemory>()> gpus;
  std::function<capstan::monitor::ProcessUse()> processes;
};

/// A line as nvidia-smi --query-gpu=timestamp,index,name,memory.used,memory.total --format=csv writes it.
std::string gpu_line(std::chrono::system_clock::time_point now, const GpuMemory& gpu);
/// A line as psrecord --log writes it: seconds, per cent of a core, and resident and addressed memory in MiB.
std::string cpu_line(double elapsed_s, double percent, const capstan::monitor::ProcessUse& use);

/// What is known of a run's speed.
struct Pace {
  double step_s = 0;       ///< what its shortest step took; 0: none is done yet
  std::int64_t steps = 0;  ///< that it makes
};
/// Seconds until the next line where no interval is asked for: a step's time, so that a short run has lines too, but a
/// thousandth of the run's, at least 0.1 and at most 5; before the first step a time that doubles with each line. A
/// line that itself took `cost_s` is followed by twenty times as long a pause.
double pause_s(const Pace& pace, std::int64_t lines, double cost_s);

/// Two logs of a host's memory, a line at a time from a thread: gpu_memory/gpu_memory_log_<host>.csv, where the
/// host has GPUs, and cpu_memory/cpu_memory_log_<host>.txt in the run's folder.
class HostLog {
 public:
  /// Makes the folders and opens the files; they continue if `continues`, else begin empty. Throws FileError.
  HostLog(const std::filesystem::path& folder, const std::string& host, bool continues, HostProbes probes);

  /// Writes a line every interval_s; without one, as often as pause_s() says for a run of `steps` steps.
  void start(std::optional<double> interval_s, std::int64_t steps = 0);
  void step_ended(double seconds);
  /// Ends the thread after a last sample.
  void stop();
  /// Peak, average and mode of each GPU, a line each, and of the processes, three lines and one that says of how many
  /// samples; from the files. Empty: none.
  std::string gpu_text() const;
  std::string cpu_text() const;

 private:
  using Clock = std::chrono::steady_clock;
  void keep_sampling(std::optional<double> interval_s, std::int64_t steps, const std::stop_token& ends);
  void sample();

  HostProbes probes_;
  std::filesystem::path gpu_file_;
  std::filesystem::path cpu_file_;
  capstan::LineFile gpu_log_;
  capstan::LineFile cpu_log_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  double last_processor_seconds_ = -1;  // below 0: there was no sample yet
  std::atomic<double> step_s_{0};       // the shortest so far; 0: none
  std::jthread thread_;                 // ends first
};

}  // namespace memory_log
