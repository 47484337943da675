#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

/// out[i] = mean + std * normal. The type is a run-time branch: that is cheap next to the numbers, and a kernel per
/// type would take long to compile.
__device__ void put(void* out, FloatType type, std::int64_t i, double mean, double std, double normal) {
  // No fused multiply-add: CPU rounds the product, and the values must be the same.
  const double value = __dadd_rn(mean, __dmul_rn(std, normal));
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(out)[i] = Float<T>::store(static_cast<typename Float<T>::Number>(value));
  });
}

/// Each thread computes two neighbours that share a block.
__global__ void fill_pairs(void* out, FloatType type, std::int64_t numel, BoxIndex box, double mean, double std,
                           PhiloxKey key) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads * 2;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * 2; i < numel; i += stride) {
    const NormalPair pair = normal_pair(key, static_cast<std::uint64_t>(box(i) / 2));
    put(out, type, i, mean, std, pair.value[0]);
    if (i + 1 < numel) {
      put(out, type, i + 1, mean, std, pair.value[1]);
    }
  }
}

/// Each thread computes one element, for boxes whose runs begin or end inside a block.
__global__ void fill_single(void* out, FloatType type, std::int64_t numel, BoxIndex box, double mean, double std,
                            PhiloxKey key) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < numel; i += stride) {
    const std::int64_t index = box(i);
    const NormalPair pair = normal_pair(key, static_cast<std::uint64_t>(index / 2));
    put(out, type, i, mean, std, index % 2 == 0 ? pair.value[0] : pair.value[1]);
  }
}

}  // namespace

void fill_normal(void* out, FloatType type, std::int64_t numel, const BoxIndex& box, double mean, double std,
                 PhiloxKey key, CUstream_st* stream) {
  const bool pairs = box.dims == 1 ? box.base % 2 == 0 : box.aligned(2);
  const auto kernel = pairs ? fill_pairs : fill_single;
  const auto blocks = blocks_for(parts_of(numel, pairs ? 2 : 1), threads);
  kernel<<<blocks, threads, 0, stream>>>(out, type, numel, box, mean, std, key);
}

}  // namespace capstan::kernels
