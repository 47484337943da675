#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <capstan/ops/pinned.h>

#include "ops/operators.h"

namespace capstan::ops {

at::Tensor host_zeros(std::int64_t elements, c10::ScalarType dtype, bool pinned, c10::Device device) {
  if (!pinned || device.is_cpu() || elements == 0) return at::zeros({elements}, at::TensorOptions().dtype(dtype));
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("capstan::pinned_bytes", "").typed<PinnedBytes>();
  const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(dtype));
  return op.call(bytes, at::empty({0}, at::TensorOptions().device(device))).view(dtype);
}

}  // namespace capstan::ops
