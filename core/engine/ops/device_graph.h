#pragma once
#include <capstan/base/export.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Work of a device that is recorded once and queued again: CUDA graphs, with what the host does between them.
class DeviceGraph {
 public:
  virtual ~DeviceGraph();
  /// Queues the work on the current stream.
  virtual void replay() = 0;
};

/// Records work on one device. All its graphs share one pool of memory, apart from that of other tensors: what work
/// frees, later recordings use again. So replays must follow one another on one stream, and what a graph leaves for
/// others belongs into tensors that were there before it was recorded.
class GraphRecorder {
 public:
  virtual ~GraphRecorder();
  struct Room {
    std::int64_t free = 0;   ///< bytes of the device that are not in use
    std::int64_t spare = 0;  ///< bytes that LibTorch's allocator kept from tensors now gone, until now
  };
  /// Gives back what the allocator keeps, and says what there is. Waits for the device.
  virtual Room make_room() = 0;
  /// Takes what is not to be recorded. Each replay calls it, with what was recorded before queued and what came after
  /// not yet. The thread that records gives the first one, any thread later ones.
  using Apart = std::function<void(std::function<void()>)>;
  /// Runs `work`, whose operators are recorded and not carried out. Throws what work throws; Error where it queues what
  /// cannot be recorded (the host reads a result, memory is allocated by other means). All is then as before.
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void(const Apart&)>& work) = 0;
};

/// Null on devices without graphs.
std::shared_ptr<GraphRecorder> graph_recorder(c10::Device device);

}  // namespace ops
CAPSTAN_END_NAMESPACE
