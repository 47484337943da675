#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;
constexpr int width = 8;

template <class T>
__global__ void scale_packs(T* out, const float* x, const float* factor, std::int64_t numel) {
  const float by = *factor;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads,
                     first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t packs = numel / width;
  for (std::int64_t i = first; i < packs; i += stride) {
    const auto low = reinterpret_cast<const Packed<float, width / 2>*>(x)[2 * i];
    const auto high = reinterpret_cast<const Packed<float, width / 2>*>(x)[2 * i + 1];
    Packed<T, width> result;
#pragma unroll
    for (int j = 0; j < width / 2; ++j) {
      result.value[j] = Float<T>::store(low.value[j] * by);
      result.value[width / 2 + j] = Float<T>::store(high.value[j] * by);
    }
    reinterpret_cast<Packed<T, width>*>(out)[i] = result;
  }
  for (std::int64_t i = packs * width + first; i < numel; i += stride) out[i] = Float<T>::store(x[i] * by);
}

}  // namespace

void scaled(void* out, FloatType type, const float* x, const float* factor, std::int64_t numel, CUstream_st* stream) {
  const unsigned blocks = blocks_for(parts_of(numel, width), threads);
  if (type == FloatType::half) {
    scale_packs<<<blocks, threads, 0, stream>>>(static_cast<__half*>(out), x, factor, numel);
  } else {
    scale_packs<<<blocks, threads, 0, stream>>>(static_cast<__nv_bfloat16*>(out), x, factor, numel);
  }
}

}  // namespace capstan::kernels
