#include "ops/cuda_float.cuh"

namespace capstan::ops::cuda {
namespace {

constexpr int packs_a_thread = 4;
constexpr unsigned all_lanes = 0xffffffffu;

__device__ float inverse_root(float x) { return 1.0F / sqrtf(x); }
__device__ double inverse_root(double x) { return 1.0 / sqrt(x); }

/// Over a thread block of whole warps; every thread gets it.
template <class Number>
__device__ Number block_total(Number mine) {
  __shared__ Number of_warps[32];
  for (int distance = 16; distance > 0; distance /= 2) mine += __shfl_down_sync(all_lanes, mine, distance);
  __syncthreads();  // an earlier total has been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  Number total = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += of_warps[warp];
  return total;
}

/// A thread's part of a row, in registers.
template <class T, int width>
struct Part {
  using Number = typename Float<T>::Product;
  using Pack = Packed<T, width>;
  Number value[packs_a_thread][width];

  static __device__ Number number(const Pack& pack, int j) {
    return static_cast<Number>(Float<T>::load(pack.value[j]));
  }
  static __device__ const Pack* packs(const void* data) { return static_cast<const Pack*>(data); }
  /// body(p, c): the thread's p-th pack is the row's c-th.
  template <class Body>
  static __device__ void each(int columns, const Body& body) {
#pragma unroll
    for (int p = 0; p < packs_a_thread; ++p) {
      const int c = p * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
      if (c < columns / width) body(p, c);
    }
  }
  /// The block's total of body(element) over the row.
  template <class Body>
  __device__ Number total(int columns, const Body& body) const {
    Number sum = 0;
    each(columns, [&](int p, int) {
#pragma unroll
      for (int j = 0; j < width; ++j) sum += body(value[p][j]);
    });
    return block_total(sum);
  }
};

/// Reads x, and adds y and writes the sum where there is one.
template <class T, int width>
__device__ void load_sum(const NormCall& call, std::int64_t begin, Part<T, width>& row) {
  using P = Part<T, width>;
  P::each(call.columns, [&](int p, int c) {
    typename P::Pack sum = P::packs(call.x)[begin + c];
    if (call.y != nullptr) {
      const typename P::Pack added = P::packs(call.y)[begin + c];
#pragma unroll
      for (int j = 0; j < width; ++j) sum.value[j] = Float<T>::store(P::number(sum, j) + P::number(added, j));
      static_cast<typename P::Pack*>(call.sum)[begin + c] = sum;
    }
#pragma unroll
    for (int j = 0; j < width; ++j) row.value[p][j] = P::number(sum, j);
  });
}

/// One thread block a row, which its registers hold.
template <class T, int width>
__global__ void forward_row(const __grid_constant__ NormCall call) {
  using P = Part<T, width>;
  using Number = typename P::Number;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (call.columns / width);
  const Number columns = static_cast<Number>(call.columns);
  P row;
  load_sum(call, begin, row);
  Number mean = 0;
  if (call.bias != nullptr) mean = row.total(call.columns, [](Number x) { return x; }) / columns;
  const Number variance = row.total(call.columns, [mean](Number x) { return (x - mean) * (x - mean); }) / columns;
  const Number rstd = inverse_root(variance + static_cast<Number>(call.epsilon));
  if (threadIdx.x == 0) {
    static_cast<Number*>(call.rstd)[blockIdx.x] = rstd;
    if (call.bias != nullptr) static_cast<Number*>(call.mean)[blockIdx.x] = mean;
  }
  P::each(call.columns, [&](int p, int c) {
    const typename P::Pack weight = P::packs(call.weight)[c];
    typename P::Pack out, bias = weight;
    if (call.bias != nullptr) bias = P::packs(call.bias)[c];
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const Number scaled = (row.value[p][j] - mean) * rstd * P::number(weight, j);
      out.value[j] = Float<T>::store(call.bias != nullptr ? scaled + P::number(bias, j) : scaled);
    }
    static_cast<typename P::Pack*>(call.out)[begin + c] = out;
  });
}

template <class T, int width>
__global__ void backward_row(const __grid_constant__ NormBackward call) {
  using P = Part<T, width>;
  using Number = typename P::Number;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (call.columns / width);
  const Number columns = static_cast<Number>(call.columns);
  const Number rstd = static_cast<const Number*>(call.rstd)[blockIdx.x];
  const Number mean = call.mean != nullptr ? static_cast<const Number*>(call.mean)[blockIdx.x] : Number{0};
  P z, g;
  Number total = 0, total_z = 0;
  P::each(call.columns, [&](int p, int c) {
    const typename P::Pack x = P::packs(call.x)[begin + c], gradient = P::packs(call.normed)[begin + c];
    const typename P::Pack weight = P::packs(call.weight)[c];
#pragma unroll
    for (int j = 0; j < width; ++j) {
      z.value[p][j] = (P::number(x, j) - mean) * rstd;
      g.value[p][j] = P::number(gradient, j) * P::number(weight, j);
      total += g.value[p][j];
      total_z += g.value[p][j] * z.value[p][j];
    }
  });
  const Number mean_z = block_total(total_z) / columns;
  const Number mean_g = call.mean != nullptr ? block_total(total) / columns : Number{0};
  P::each(call.columns, [&](int p, int c) {
    typename P::Pack out, residual{};
    if (call.residual != nullptr) residual = P::packs(call.residual)[begin + c];
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const Number own = (g.value[p][j] - mean_g - z.value[p][j] * mean_z) * rstd;
      out.value[j] = Float<T>::store(call.residual != nullptr ? own + P::number(residual, j) : own);
    }
    static_cast<typename P::Pack*>(call.out)[begin + c] = out;
  });
}

/// Whole warps that hold a row.
unsigned threads_for(int packs) {
  if (packs <= 128) return 128;
  unsigned threads = 256;
  while (threads < 1024 && static_cast<int>(threads) * 2 < packs) threads *= 2;
  return threads;
}

}  // namespace

void add_norm(const NormCall& call, CUstream_st* stream) {
  with_type(call.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int width = 16 / sizeof(T);
    forward_row<T, width><<<static_cast<unsigned>(call.rows), threads_for(call.columns / width), 0, stream>>>(call);
  });
}

void add_norm_backward(const NormBackward& call, CUstream_st* stream) {
  with_type(call.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int width = 16 / sizeof(T);
    backward_row<T, width><<<static_cast<unsigned>(call.rows), threads_for(call.columns / width), 0, stream>>>(call);
  });
}

}  // namespace capstan::ops::cuda
