#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

/// A thread block a token.
template <class T, int width>
__global__ void combine(CombineCall call) {
  using Number = typename Float<T>::Number;
  using Pack = Packed<T, width>;
  const std::int64_t packs = call.columns / width;
  for (std::int64_t token = blockIdx.x; token < call.tokens; token += gridDim.x) {
    const std::int64_t first = token * call.copies;
    for (std::int64_t c = threadIdx.x; c < packs; c += threads) {
      Number sum[width] = {};
      for (int copy = 0; copy < call.copies; ++copy) {
        const Number weight = call.weights == nullptr
                                  ? Number{1}
                                  : Number(Float<T>::load(static_cast<const T*>(call.weights)[first + copy]));
        const Pack row = static_cast<const Pack*>(call.rows)[call.place[first + copy] * packs + c];
#pragma unroll
        for (int j = 0; j < width; ++j) sum[j] += weight * static_cast<Number>(Float<T>::load(row.value[j]));
      }
      Pack out;
#pragma unroll
      for (int j = 0; j < width; ++j) out.value[j] = Float<T>::store(sum[j]);
      static_cast<Pack*>(call.out)[token * packs + c] = out;
    }
  }
}

/// A thread block a row.
template <class T, int width>
__global__ void spread(CombineBackward call) {
  using Number = typename Float<T>::Number;
  using Pack = Packed<T, width>;
  __shared__ Number of_warps[threads / 32];
  const std::int64_t packs = call.columns / width;
  for (std::int64_t row = blockIdx.x; row < call.n; row += gridDim.x) {
    const std::int64_t copy = call.order[row], token = copy / call.copies;
    const Number weight = Float<T>::load(static_cast<const T*>(call.weights)[copy]);
    Number dot = 0;
    for (std::int64_t c = threadIdx.x; c < packs; c += threads) {
      const Pack gradient = static_cast<const Pack*>(call.gradient)[token * packs + c];
      const Pack own = static_cast<const Pack*>(call.rows)[row * packs + c];
      Pack out;
#pragma unroll
      for (int j = 0; j < width; ++j) {
        const Number g = Float<T>::load(gradient.value[j]);
        dot += g * static_cast<Number>(Float<T>::load(own.value[j]));
        out.value[j] = Float<T>::store(g * weight);
      }
      static_cast<Pack*>(call.of_rows)[row * packs + c] = out;
    }
    for (int distance = 16; distance > 0; distance /= 2) dot += __shfl_down_sync(all_lanes, dot, distance);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = dot;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < threads / 32; ++warp) dot += of_warps[warp];
      static_cast<T*>(call.of_weights)[copy] = Float<T>::store(dot);
    }
    __syncthreads();
  }
}

}  // namespace

void combine_rows(const CombineCall& call, CUstream_st* stream) {
  with_pack(call.type, call.columns, {call.rows, call.out}, [&]<class T, int width>(Packed<T, width>, std::int64_t) {
    combine<T, width><<<blocks_for(call.tokens, 1), threads, 0, stream>>>(call);
  });
}

void combine_rows_backward(const CombineBackward& call, CUstream_st* stream) {
  with_pack(call.type, call.columns, {call.gradient, call.rows, call.of_rows},
            [&]<class T, int width>(Packed<T, width>, std::int64_t) {
              spread<T, width><<<blocks_for(call.n, 1), threads, 0, stream>>>(call);
            });
}

}  // namespace capstan::kernels
