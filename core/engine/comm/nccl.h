#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {
class Store;
}
namespace comm {

struct NcclOptions {
  std::string name;
  std::vector<int> ranks;
  int rank = 0;  ///< position in ranks
  c10::Device device{c10::kCUDA, 0};
  std::chrono::milliseconds timeout{};
};

/// A group on a GPU. Its calls are queued on the current stream.
class DeviceGroup : public Group {
 public:
  using Group::Group;
  /// Aborts calls that hang on the device; called by the watch thread when the run has failed. The group cannot be used
  /// afterwards.
  virtual void abort() = 0;
};

/// Makes NCCL groups: implemented in the GPU module, so that core needs neither CUDA nor NCCL.
class NcclFactory {
 public:
  virtual ~NcclFactory() = default;
  /// All members call it at the same time; returns when they are connected.
  virtual std::shared_ptr<DeviceGroup> make(const NcclOptions& options, const peers::Store& store,
                                            std::shared_ptr<peers::CallLog> log) const = 0;
};

/// The module's symbol `capstan_cuda_nccl` is a function of this type; the factory lives as long as the process.
using NcclFactoryEntry = const NcclFactory* (*)();

}  // namespace comm
CAPSTAN_END_NAMESPACE
