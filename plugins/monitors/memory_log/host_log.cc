#include "host_log.h"

#include <capstan/base/counted.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>

#include "runs/memory_use.h"

namespace memory_log {

using namespace capstan;

namespace {

constexpr double bytes_a_mib = 1024.0 * 1024.0;
constexpr auto gpu_head = "timestamp, index, name, memory.used [MiB], memory.total [MiB]";
constexpr auto cpu_head = "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)";

std::filesystem::path in_folder(const std::filesystem::path& folder, const std::string& file, bool continues) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw FileError(folder, "make", error.value());
  if (!continues) std::filesystem::remove(folder / file, error);
  return folder / file;
}

bool has_no_line(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  return error || size == 0;
}

}  // namespace

std::string gpu_line(std::chrono::system_clock::time_point now, const GpuMemory& gpu) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = since / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 64> day{};
  std::array<char, 96> time{};
  std::strftime(day.data(), day.size(), "%Y/%m/%d %H:%M:%S", &local);
  std::snprintf(time.data(), time.size(), "%s.%03d", day.data(), static_cast<int>(since % 1000));
  return cat(time.data(), ", ", gpu.index, ", ", gpu.name, ", ", gpu.used, " MiB, ", gpu.total, " MiB");
}

std::string cpu_line(double elapsed_s, double percent, const monitor::ProcessUse& use) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%12.3f %12.3f %12.3f %12.3f", elapsed_s, percent,
                static_cast<double>(use.resident) / bytes_a_mib, static_cast<double>(use.addressed) / bytes_a_mib);
  return line.data();
}

HostLog::HostLog(const std::filesystem::path& folder, const std::string& host, bool continues, HostProbes probes)
    : probes_(std::move(probes)) {
  cpu_file_ = in_folder(folder / "cpu_memory", cat("cpu_memory_log_", host, ".txt"), continues);
  cpu_log_.open(cpu_file_);
  if (has_no_line(cpu_file_)) cpu_log_.add(cpu_head);
  if (probes_.gpus().empty()) return;
  gpu_file_ = in_folder(folder / "gpu_memory", cat("gpu_memory_log_", host, ".csv"), continues);
  gpu_log_.open(gpu_file_);
  if (has_no_line(gpu_file_)) gpu_log_.add(gpu_head);
}

double pause_s(const Pace& pace, std::int64_t lines, double cost_s) {
  constexpr double least = 0.1;
  constexpr double most = 5;
  constexpr double share_of_a_core = 0.05;
  constexpr double most_lines = 1000;
  const double of_run = pace.step_s * static_cast<double>(pace.steps);
  const double wanted = pace.step_s > 0 ? std::max(pace.step_s, of_run / most_lines)
                                        : std::ldexp(least, static_cast<int>(std::min<std::int64_t>(lines, 10)));
  return std::max(std::clamp(wanted, least, most), cost_s / share_of_a_core);
}

void HostLog::step_ended(double seconds) {
  const double known = step_s_;
  if (seconds > 0 && (known == 0 || seconds < known)) step_s_ = seconds;
}

void HostLog::start(std::optional<double> interval_s, std::int64_t steps) {
  begin_ = last_ = Clock::now();
  thread_ =
      std::jthread([this, interval_s, steps](const std::stop_token& ends) { keep_sampling(interval_s, steps, ends); });
}

void HostLog::stop() { thread_ = {}; }

void HostLog::keep_sampling(std::optional<double> interval_s, std::int64_t steps, const std::stop_token& ends) {
  std::chrono::duration<double> between(0);
  std::mutex mutex;
  std::condition_variable_any never;  // waits only for the end
  std::unique_lock lock(mutex);
  std::int64_t lines = 0;
  do {
    const auto begin = Clock::now();
    sample();
    const double cost_s = std::chrono::duration<double>(Clock::now() - begin).count();
    between = std::chrono::duration<double>(interval_s ? *interval_s : pause_s({step_s_, steps}, lines++, cost_s));
  } while (!never.wait_for(lock, ends, between, [&] { return ends.stop_requested(); }));
  sample();
}

void HostLog::sample() {
  const auto now = Clock::now();
  const auto use = probes_.processes();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  const double worked = std::max(0.0, use.processor_seconds - last_processor_seconds_);
  const double percent = last_processor_seconds_ >= 0 && seconds > 0 ? 100 * worked / seconds : 0.0;
  last_processor_seconds_ = use.processor_seconds;
  last_ = now;
  cpu_log_.add(cpu_line(std::chrono::duration<double>(now - begin_).count(), percent, use));
  if (!gpu_log_.is_open()) return;
  const auto time = std::chrono::system_clock::now();
  for (const auto& gpu : probes_.gpus()) gpu_log_.add(gpu_line(time, gpu));
}

std::string HostLog::gpu_text() const {
  std::string text;
  if (gpu_file_.empty()) return text;
  for (const auto& [gpu, samples] : runs::read_gpu_memory_log(read_file(gpu_file_), gpu_file_.string()))
    text += runs::gpu_memory_line(gpu, runs::memory_use(samples)) + "\n";
  return text;
}

std::string HostLog::cpu_text() const {
  const auto samples = runs::read_cpu_memory_log(read_file(cpu_file_), cpu_file_.string()).real_mb;
  if (samples.empty()) return {};
  return cat(runs::cpu_memory_lines(runs::memory_use(samples)), "\n   (", counted(samples.size(), "sample"),
             " of all processes of the run on this host; between two of them it may have been more)\n");
}

}  // namespace memory_log
