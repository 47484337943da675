#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

// Sums of squares, in float64, read in place: nothing is copied or converted in memory.
//
// The order of summation is fixed and the same on CPU and CUDA, so the bits depend on neither the number of threads
// nor the device: elements are taken in memory order in blocks of 4096; in a block, 256 lanes each add elements
// 256 apart, then lanes are added as a binary tree (128, 64, ... 1 apart); the blocks' sums are added in the same way.
// Tensors are float64, float32, bfloat16 or half and dense in memory (contiguous in some order of the dimensions, so
// a slice of a flat buffer too). Everything runs on the current stream; nothing waits for the device.

/// out[i] = sum of the squared elements of xs[i]. The tensors may have any mix of dtypes. `out` is [xs.size()] float64,
/// contiguous, on the tensors' device. On CUDA two launches for every 64 tensors.
void squared_norms(const at::Tensor& out, const std::vector<at::Tensor>& xs);

}  // namespace ops
CAPSTAN_END_NAMESPACE
