#include "ops/device_graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include "ops/operator.h"

namespace capstan::ops {

DeviceGraph::~DeviceGraph() = default;
GraphRecorder::~GraphRecorder() = default;

// The GPU module's operator makes it: nothing else reaches over from here without linking that.
TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("new_graph_recorder(Tensor on_device) -> int"); }

std::shared_ptr<GraphRecorder> graph_recorder(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  static const auto op = find_operator<std::int64_t(const at::Tensor&)>("capstan::new_graph_recorder");
  const auto made = op.call(at::empty({0}, at::TensorOptions().device(device)));
  return std::shared_ptr<GraphRecorder>(reinterpret_cast<GraphRecorder*>(made));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace capstan::ops
