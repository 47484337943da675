#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

template <class T>
__device__ T dropped(T x, std::uint32_t word, const DropoutRule& rule) {
  using Number = typename Float<T>::Number;
  const bool kept = word >= rule.threshold;
  return Float<T>::store(kept ? static_cast<Number>(Float<T>::load(x) * static_cast<Number>(rule.scale)) : Number{0});
}

template <class T>
using Quad = Packed<T, dropout_lanes>;

/// Each thread computes four neighbours that share a block; a row of thread blocks for each row of x.
template <class T>
__global__ void drop_quads(Quad<T>* out, const Quad<T>* x, DropoutShape shape, DropoutRule rule, DropoutStep step,
                           const std::int64_t* samples) {
  const std::int64_t now = step.device != nullptr ? *step.device : step.value;
  const std::int64_t quads = shape.row / dropout_lanes, stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t b = blockIdx.y; b < shape.batch; b += gridDim.y) {
    const std::int64_t sample = samples[b];
    for (std::int64_t q = std::int64_t{blockIdx.x} * threads + threadIdx.x; q < quads; q += stride) {
      const PhiloxBlock words = dropout_words(rule.key, now, sample, shape.box(q * dropout_lanes) / dropout_lanes);
      const Quad<T> in = x[b * quads + q];
      Quad<T> result;
#pragma unroll
      for (int lane = 0; lane < dropout_lanes; ++lane) {
        result.value[lane] = dropped(in.value[lane], words.word[lane], rule);
      }
      out[b * quads + q] = result;
    }
  }
}

/// Each thread computes one element, for rows whose runs begin or end inside a block.
template <class T>
__global__ void drop_single(T* out, const T* x, DropoutShape shape, DropoutRule rule, DropoutStep step,
                            const std::int64_t* samples) {
  const std::int64_t now = step.device != nullptr ? *step.device : step.value;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t b = blockIdx.y; b < shape.batch; b += gridDim.y) {
    const std::int64_t sample = samples[b];
    for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < shape.row; i += stride) {
      const std::int64_t index = shape.box(i);
      const PhiloxBlock words = dropout_words(rule.key, now, sample, index / dropout_lanes);
      const int lane = static_cast<int>(index % dropout_lanes);
      const std::uint32_t low = lane % 2 == 0 ? words.word[0] : words.word[1];
      const std::uint32_t high = lane % 2 == 0 ? words.word[2] : words.word[3];
      out[b * shape.row + i] = dropped(x[b * shape.row + i], lane < 2 ? low : high, rule);
    }
  }
}

}  // namespace

void dropout(void* out, const void* x, FloatType type, const DropoutShape& shape, const DropoutRule& rule,
             DropoutStep step, const std::int64_t* samples, CUstream_st* stream) {
  const auto rows = static_cast<unsigned>(shape.batch < 65535 ? shape.batch : 65535);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if (shape.box.aligned(dropout_lanes) && is_aligned(x, sizeof(Quad<T>)) && is_aligned(out, sizeof(Quad<T>))) {
      const dim3 grid(blocks_for(shape.row / dropout_lanes, threads), rows);
      drop_quads<<<grid, threads, 0, stream>>>(static_cast<Quad<T>*>(out), static_cast<const Quad<T>*>(x), shape, rule,
                                               step, samples);
    } else {
      const dim3 grid(blocks_for(shape.row, threads), rows);
      drop_single<<<grid, threads, 0, stream>>>(static_cast<T*>(out), static_cast<const T*>(x), shape, rule, step,
                                                samples);
    }
  });
}

}  // namespace capstan::kernels
