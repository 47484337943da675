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

/// For a dry run, which predicts the time of a step: a copy to or from host memory begins, on a stream on which all
/// that are told of come one after the other. Outside of a dry run it does nothing.
void tell_host_copy(const void* key, std::int64_t bytes);
/// … What is computed from now on waits for the last one with this key.
void tell_host_wait(const void* key);

}  // namespace ops
CAPSTAN_END_NAMESPACE
