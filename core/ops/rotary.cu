#include "ops/cuda_float.cuh"

namespace capstan::ops::cuda {
namespace {

constexpr int threads = 256;

__device__ void sine_cosine(float angle, float* sine, float* cosine) { sincosf(angle, sine, cosine); }
__device__ void sine_cosine(double angle, double* sine, double* cosine) { sincos(angle, sine, cosine); }

/// A thread block a token: cosines and sines once, then all heads.
template <class T>
__global__ void rotate(T* out, const T* x, const std::int64_t* positions, RotaryShape shape,
                       RotaryFrequencies frequencies, bool inverse) {
  using Number = typename Float<T>::Product;
  __shared__ Number cosines[RotaryFrequencies::capacity], sines[RotaryFrequencies::capacity];
  for (std::int64_t token = blockIdx.x; token < shape.batch * shape.length; token += gridDim.x) {
    const auto position = static_cast<Number>(positions[token]);
    for (int i = static_cast<int>(threadIdx.x); i < shape.half; i += threads) {
      Number sine, cosine;
      sine_cosine(position * static_cast<Number>(frequencies.value[i]), &sine, &cosine);
      cosines[i] = cosine;
      sines[i] = inverse ? -sine : sine;
    }
    __syncthreads();
    const T* const from = x + token / shape.length * shape.batch_stride + token % shape.length * shape.token_stride;
    T* const to = out + token * shape.heads * 2 * shape.half;
    for (int i = static_cast<int>(threadIdx.x); i < shape.heads * shape.half; i += threads) {
      const int head = i / shape.half, k = i % shape.half;
      const T* const in = from + head * shape.head_stride;
      const Number first = Float<T>::load(in[k]), second = Float<T>::load(in[k + shape.half]);
      to[head * 2 * shape.half + k] = Float<T>::store(first * cosines[k] - second * sines[k]);
      to[(head * 2 + 1) * shape.half + k] = Float<T>::store(second * cosines[k] + first * sines[k]);
    }
    __syncthreads();
  }
}

}  // namespace

void rotary(void* out, const void* x, FloatType type, const std::int64_t* positions, const RotaryShape& shape,
            const RotaryFrequencies& frequencies, bool inverse, CUstream_st* stream) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    rotate<<<blocks_for(shape.batch * shape.length, 1), threads, 0, stream>>>(
        static_cast<T*>(out), static_cast<const T*>(x), positions, shape, frequencies, inverse);
  });
}

}  // namespace capstan::ops::cuda
