#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <capstan/ops/pinned.h>

#include "comm/planned_group.h"
#include "ops/operator.h"

namespace capstan::ops {

TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("pinned_bytes(int bytes, Tensor on_device) -> Tensor"); }

at::Tensor host_zeros(std::int64_t elements, c10::ScalarType dtype, bool pinned, c10::Device device) {
  if (!pinned || device.is_cpu() || elements == 0) return at::zeros({elements}, at::TensorOptions().dtype(dtype));
  static const auto op = find_operator<at::Tensor(std::int64_t, const at::Tensor&)>("capstan::pinned_bytes");
  const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(dtype));
  return op.call(bytes, at::empty({0}, at::TensorOptions().device(device))).view(dtype);
}

void tell_host_copy(const void* key, std::int64_t bytes) { comm::PlannedCalls::tell({"host", {0}, bytes, key}); }
void tell_host_wait(const void* key) { comm::PlannedCalls::tell({"host", {0}, 0, key}); }

}  // namespace capstan::ops
