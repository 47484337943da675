#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// out[i] = a checksum of the bits of xs[i], which are float64, float32, bfloat16 or half in any mix, and dense in
/// memory. `out` is [xs.size()] int64, contiguous, on the tensors' device. The same on CPU and CUDA: it depends only on
/// the bits and their order (0.0 and -0.0 differ). On CUDA a launch for every 64 tensors, on the current stream;
/// nothing waits for the device.
void checksums(const at::Tensor& out, const std::vector<at::Tensor>& xs);

}  // namespace ops
CAPSTAN_END_NAMESPACE
