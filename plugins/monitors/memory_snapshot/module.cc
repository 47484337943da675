#include <c10/core/CachingDeviceAllocator.h>
#include <capstan/base/log.h>
#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/monitor/resident.h>
#include <capstan/monitor_parts/chosen.h>

#include <algorithm>
#include <memory>

#include "snapshot.h"

namespace memory_snapshot {
namespace {

using namespace capstan;

// LibTorch's caching allocator.
Whole of_gpu(int gpu) {
  const auto device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {stats.allocated_bytes[all].current, stats.reserved_bytes[all].current, stats.allocated_bytes[all].peak};
}

Whole of_process() { return {monitor::resident_bytes(), 0, monitor::peak_resident_bytes()}; }

class MemorySnapshot final : public monitor::Monitor, public monitor::PlannedRunCheck {
 public:
  explicit MemorySnapshot(const config::Options<SnapshotOptions>& options)
      : options_(*options),
        steps_(monitor::chosen_numbers(options, &SnapshotOptions::steps)),
        ranks_(monitor::chosen_numbers(options, &SnapshotOptions::ranks)) {}
  void check(const monitor::PlannedRun& run, Diagnostics& diagnostics) const override {
    monitor::check_chosen_steps(steps_, ranks_, run, diagnostics);
  }
  void run_started(const monitor::RunStarted& run) override {
    const bool writes = std::find(options_.ranks.begin(), options_.ranks.end(), run.rank) != options_.ranks.end();
    Watcher::Setting setting{
        run.folder, run.rank,   run.gpu >= 0, writes ? options_.steps : std::vector<std::int64_t>{},
        writes,     run.memory, of_process};
    if (run.gpu >= 0) setting.whole = [gpu = run.gpu] { return of_gpu(gpu); };
    watcher_ = std::make_shared<Watcher>(std::move(setting));
  }
  std::shared_ptr<monitor::Tracer> tracer() override { return watcher_; }
  monitor::Values step_ended(const monitor::StepEnded&) override {
    print_written();
    return {};
  }
  void run_ended(const monitor::RunEnded&) override { print_written(); }
  void run_failed(const monitor::RunFailed& failed) override {
    if (!failed.out_of_memory) return;
    const auto [file, text] = watcher_->out_of_memory(failed.what);
    log::warning(cat("memory has run out; what holds it stands in ", file.string(), ":\n", text));
  }

 private:
  void print_written() {
    for (const auto& file : watcher_->take_written()) output_.write(cat("memory snapshot: ", file.string(), "\n"));
  }
  SnapshotOptions options_;
  monitor::ChosenNumbers steps_;
  monitor::ChosenNumbers ranks_;
  Output output_;
  std::shared_ptr<Watcher> watcher_;
};

}  // namespace
}  // namespace memory_snapshot

CAPSTAN_MONITOR("memory_snapshot", "1.0", "what holds a rank's memory: in chosen steps, on request, where it runs out",
                memory_snapshot::MemorySnapshot, memory_snapshot::SnapshotOptions)
