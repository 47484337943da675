#include "kernel.h"

#include <capstan/kernels/floats.cuh>

namespace gpu_sum {
namespace {

namespace kernels = capstan::kernels;
using kernels::Float;

constexpr int threads = 256;

template <class T>
__global__ void times_index_kernel(T* out, const T* x, std::int64_t count) {
  using Number = typename Float<T>::Number;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  for (std::int64_t i = first; i < count; i += std::int64_t{gridDim.x} * threads)
    out[i] = Float<T>::store(static_cast<Number>(i) * Float<T>::load(x[i]));
}

}  // namespace

void times_index(void* out, const void* x, kernels::FloatType type, std::int64_t count, CUstream_st* stream) {
  kernels::with_type(type, [&](auto zero) {
    using T = decltype(zero);
    times_index_kernel<<<kernels::blocks_for(count, threads), threads, 0, stream>>>(static_cast<T*>(out),
                                                                                    static_cast<const T*>(x), count);
  });
}

}  // namespace gpu_sum
