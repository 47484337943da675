#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Zeros [elements] in host memory. If pinned, they are page-locked for asynchronous copies to and from `device`:
/// exactly as many bytes as needed (ATen's own pinned allocator rounds up to a power of two). Nothing is pinned for a
/// CPU device. Throws if the system does not allow locking so much.
at::Tensor host_zeros(std::int64_t elements, c10::ScalarType dtype, bool pinned, c10::Device device);

}  // namespace ops
CAPSTAN_END_NAMESPACE
