#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/nvml/nvml.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "host_log.h"

namespace memory_log {
namespace {

using namespace capstan;

constexpr std::string_view gpu_entry = "gpu_memory ";
constexpr std::string_view cpu_entry = "cpu_memory ";

HostProbes probes_of(const monitor::RunStarted& run, const std::string& host) {
  constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
  std::set<std::int64_t> ranks;
  for (std::size_t i = 0; i < run.hosts.size(); ++i) {
    if (run.hosts[i] == host) ranks.insert(run.processes.at(i));
  }
  HostProbes probes;
  probes.processes = [ranks] { return monitor::process_tree_use(ranks); };
  probes.gpus = [nvml = std::make_shared<monitor::Nvml>(), on_gpu = run.gpu >= 0] {
    std::vector<GpuMemory> all;
    if (!on_gpu) return all;
    for (const auto& gpu : nvml->gpus()) {
      if (const auto memory = nvml->memory(gpu))
        all.push_back({gpu.index, gpu.name, (memory->used + mebibyte / 2) / mebibyte, memory->total / mebibyte});
    }
    return all;
  };
  return probes;
}

/// The first rank of each host writes its logs; rank 0 prints what all of them say.
class MemoryLog final : public monitor::Monitor {
 public:
  explicit MemoryLog(const config::Options<MemoryLogOptions>& options) : options_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    prints_ = run.rank == 0;
    hosts_ = std::set<std::string>(run.hosts.begin(), run.hosts.end()).size();
    host_ = run.hosts.at(static_cast<std::size_t>(run.rank));
    const auto first = std::find(run.hosts.begin(), run.hosts.end(), host_) - run.hosts.begin();
    if (first != run.rank) return;
    log_.emplace(run.folder, host_, run.first_step > 0, probes_of(run, host_));
    log_->start(options_.interval_s, run.steps - run.first_step);
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (log_) log_->step_ended(step.step_time_s);
    return {};
  }
  monitor::Summary summary(const monitor::RunEnded&) override {
    monitor::Summary all;
    if (!log_) return all;
    log_->stop();
    if (auto text = log_->gpu_text(); !text.empty()) all.texts.emplace_back(cat(gpu_entry, host_), std::move(text));
    if (auto text = log_->cpu_text(); !text.empty()) all.texts.emplace_back(cat(cpu_entry, host_), std::move(text));
    return all;
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (!prints_) return;
    for (const auto& [name, text] : run.summary.texts) {
      if (name.starts_with(gpu_entry)) output_.write(block("GPU", name.substr(gpu_entry.size()), text));
      if (name.starts_with(cpu_entry)) output_.write(block("CPU", name.substr(cpu_entry.size()), text));
    }
  }

 private:
  std::string block(const char* kind, const std::string& host, const std::string& text) const {
    return cat(kind, " Memory Usage", hosts_ > 1 ? cat(" on ", host) : "", "\n", text);
  }
  MemoryLogOptions options_;
  Output output_;
  std::string host_;
  std::size_t hosts_ = 1;
  bool prints_ = false;
  std::optional<HostLog> log_;
};

}  // namespace
}  // namespace memory_log

CAPSTAN_MONITOR("memory_log", "1.0", "a host's memory over time, as nvidia-smi and psrecord write it",
                memory_log::MemoryLog, memory_log::MemoryLogOptions)
