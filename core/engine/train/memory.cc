#include "train/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <capstan/base/text.h>
#include <capstan/monitor/resident.h>

#include <algorithm>
#include <array>
#include <new>
#include <sstream>
#include <string_view>

namespace capstan::train {

std::int64_t device_peak(c10::Device device) {
  if (device.is_cpu()) return 0;
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

MemoryWatch::MemoryWatch(c10::Device device) : device_(device), setup_(device_peak(device)) {
  if (!device_.is_cpu()) c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index());
}

PeakMemory MemoryWatch::peak() const { return {setup_, device_peak(device_), monitor::peak_resident_bytes()}; }

std::vector<monitor::MemoryPart> memory_parts(const std::vector<layout::Footprint>& footprints) {
  std::vector<monitor::MemoryPart> parts;
  for (const auto& footprint : footprints)
    parts.push_back({footprint.part, footprint.device == "host", footprint.bytes});
  return parts;
}

// The error is also known by its text: on its way through a plugin it loses its type.
bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  const std::string_view text = error.what();
  constexpr std::array said{"CUDA out of memory", "DefaultCPUAllocator: can't allocate memory",
                            "DefaultCPUAllocator: not enough memory", "host has no memory left",
                            "GPU has no memory left"};
  return std::any_of(said.begin(), said.end(), [&](const char* words) { return text.find(words) != text.npos; });
}

std::vector<PeakMemory> exchange_peaks(const PeakMemory& mine, comm::Communicator& communicator) {
  std::vector<PeakMemory> all;
  for (const auto& text : communicator.exchange(cat(mine.device_setup, ' ', mine.device, ' ', mine.host))) {
    std::istringstream in(text);
    PeakMemory peak;
    in >> peak.device_setup >> peak.device >> peak.host;
    all.push_back(peak);
  }
  return all;
}

}  // namespace capstan::train
