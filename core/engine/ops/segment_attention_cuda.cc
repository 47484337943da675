#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

// What LibTorch's flash attention takes: heads wider than 192 have a backward where a thread block has enough memory.
std::int64_t segment_columns_cuda(const at::Tensor& like) {
  const auto attribute = [&](cudaDeviceAttr what) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, what, like.get_device()));
    return value;
  };
  constexpr int first = 8, last_large = 10, some = 192, all = 256;
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  if (major < first) return 0;
  const bool small = (major == first && attribute(cudaDevAttrComputeCapabilityMinor) != 0) || major > last_large;
  return small ? some : all;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("segment_columns", &segment_columns_cuda); }

}  // namespace capstan::ops::cuda
