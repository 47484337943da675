#include <c10/core/CachingDeviceAllocator.h>
#include <capstan/base/output.h>
#include <capstan/monitor.h>
#include <capstan/monitor/resident.h>
#include <capstan/nvml/nvml.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "utilisation.h"

namespace utilisation {
namespace {

using namespace capstan;

constexpr double megabyte = 1024.0 * 1024.0;

MemoryNow of_allocator(int gpu) {
  const auto device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {static_cast<double>(stats.allocated_bytes[all].current) / megabyte,
          static_cast<double>(stats.reserved_bytes[all].current) / megabyte,
          static_cast<double>(stats.allocated_bytes[all].peak) / megabyte};
}

MemoryNow of_process() {
  const auto now = monitor::resident_bytes();
  return {static_cast<double>(now) / megabyte, 0, static_cast<double>(monitor::peak_resident_bytes()) / megabyte};
}

Probes probes_of(const monitor::RunStarted& run) {
  Probes probes;
  if (run.gpu < 0) {
    probes.memory = of_process;
    return probes;
  }
  probes.memory = [gpu = run.gpu] { return of_allocator(gpu); };
  const auto nvml = std::make_shared<monitor::Nvml>();
  probes.gpu = [nvml, uuid = run.gpu_uuid]() -> std::optional<GpuNow> {
    const auto* gpu = nvml->find(uuid);
    if (gpu == nullptr) return {};
    const auto percent = nvml->utilisation(*gpu);
    const auto memory = nvml->memory(*gpu);
    if (!percent || !memory) return {};
    return GpuNow{*percent, static_cast<double>(memory->used) / megabyte};
  };
  return probes;
}

class UtilisationMonitor final : public monitor::Monitor {
 public:
  explicit UtilisationMonitor(const config::Options<UtilisationOptions>& options) : options_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    rank_ = run.rank;
    ranks_ = run.world_size;
    utilisation_ = std::make_unique<Utilisation>(options_, probes_of(run));
    utilisation_->start();
  }
  monitor::Values step_ended(const monitor::StepEnded&) override { return utilisation_->step_ended(); }
  monitor::Summary summary(const monitor::RunEnded&) override {
    utilisation_->stop();
    return {utilisation_->summary(), {}};
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (rank_ == 0) output_.write(summary_lines(run.summary, ranks_));
  }

 private:
  UtilisationOptions options_;
  std::unique_ptr<Utilisation> utilisation_;
  Output output_;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace
}  // namespace utilisation

CAPSTAN_MONITOR("utilisation", "1.0", "memory and GPU utilisation of all ranks: each step, and means at the end",
                utilisation::UtilisationMonitor, utilisation::UtilisationOptions)
