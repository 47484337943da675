#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// NVIDIA's management library, which the driver brings: what nvidia-smi asks. Loaded by name when the object is made;
/// on a machine without it there are no GPUs. Safe from any thread.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// A GPU of this host, as nvidia-smi numbers it.
  struct Gpu {
    int index = 0;
    std::string name;  ///< "NVIDIA H200"
    std::string uuid;  ///< "GPU-1b2f…"
    void* handle = nullptr;
  };
  /// Bytes; `used` counts all processes.
  struct Memory {
    std::int64_t used = 0;
    std::int64_t total = 0;
  };
  const std::vector<Gpu>& gpus() const { return gpus_; }
  /// The one of this UUID; null where there is none.
  const Gpu* find(const std::string& uuid) const;
  /// Nothing where the driver does not say.
  std::optional<Memory> memory(const Gpu& gpu) const;
  /// What the GPU's clocks and temperature are now; numbers that the driver does not say are 0.
  struct Clocks {
    unsigned mhz = 0;   ///< clock of the multiprocessors
    unsigned most = 0;  ///< MHz that they can have
    unsigned celsius = 0;
    std::vector<std::string> slowed_by;  ///< "too hot", …: why they are lower, but for idleness and set limits
  };
  Clocks clocks(const Gpu& gpu) const;
  /// Per cent of the last sample period (some hundred milliseconds) in which a kernel ran.
  std::optional<double> utilisation(const Gpu& gpu) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::vector<Gpu> gpus_;
};

}  // namespace monitor
CAPSTAN_END_NAMESPACE
