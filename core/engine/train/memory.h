#pragma once
#include <c10/core/Device.h>
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/footprint.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <exception>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The most memory that a rank held at once, bytes.
struct PeakMemory {
  std::int64_t device_setup = 0;  ///< allocated on the GPU before the first step; 0 on CPU ranks
  std::int64_t device = 0;        ///< allocated on the GPU while steps ran; 0 on CPU ranks
  std::int64_t host = 0;          ///< resident set of the process, until the run's end
};

/// Measures a run's steps: made before the first one. The GPU numbers are those of LibTorch's caching allocator
/// (bytes in tensors, not what it keeps in reserve).
class MemoryWatch {
 public:
  explicit MemoryWatch(c10::Device device);
  /// This rank's peaks so far.
  PeakMemory peak() const;

 private:
  c10::Device device_;
  std::int64_t setup_ = 0;
};

/// The most bytes in tensors on this GPU so far, or since a MemoryWatch was made; 0 for a CPU.
std::int64_t device_peak(c10::Device device);

/// Footprints as monitors are told of them.
std::vector<monitor::MemoryPart> memory_parts(const std::vector<layout::Footprint>& footprints);

/// Does this error say that the GPU or the host has no memory left?
bool is_out_of_memory(const std::exception& error);

/// Each rank's peaks, by rank. Collective over the world.
std::vector<PeakMemory> exchange_peaks(const PeakMemory& mine, comm::Communicator& communicator);

}  // namespace train
CAPSTAN_END_NAMESPACE
