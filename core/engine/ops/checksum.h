#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// out[i] = a checksum of the bits of xs[i], which are float64, float32, bfloat16 or half, dense in memory, of any mix
/// of dtypes. `out` is [xs.size()] int64, contiguous, on the tensors' device. The same on CPU and CUDA: it depends on
/// the bits and their order alone (0.0 and -0.0 differ). On CUDA a launch for every 64 tensors, on the current stream;
/// nothing waits for the device.
void checksums(const at::Tensor& out, const std::vector<at::Tensor>& xs);

}  // namespace ops
CAPSTAN_END_NAMESPACE
