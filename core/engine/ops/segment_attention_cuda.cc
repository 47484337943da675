#include <ATen/cuda/CUDAContextLight.h>

#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

// What LibTorch's flash attention takes: heads wider than 192 have a backward where a thread block has enough memory.
std::int64_t segment_columns_cuda(const at::Tensor& like) {
  constexpr int first = 8, last_large = 10, some = 192, all = 256;
  const auto* gpu = at::cuda::getDeviceProperties(like.get_device());
  if (gpu->major < first) return 0;
  return (gpu->major == first && gpu->minor != 0) || gpu->major > last_large ? some : all;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("segment_columns", &segment_columns_cuda); }

}  // namespace capstan::ops::cuda
