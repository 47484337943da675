#include <type_traits>

#include "kernel.cuh"

namespace capstan::kernels {
namespace {

__device__ float inverse_root(float x) { return 1.0F / sqrtf(x); }
__device__ double inverse_root(double x) { return 1.0 / sqrt(x); }

/// Sums over a thread block of whole warps; every thread gets them.
template <int count, class Number>
__device__ void block_totals(Number (&mine)[count]) {
  __shared__ Number of_warps[count][32];
  for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < count; ++i) mine[i] += __shfl_down_sync(all_lanes, mine[i], distance);
  }
  __syncthreads();  // earlier totals have been read
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) of_warps[i][threadIdx.x / 32] = mine[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) {
    mine[i] = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) mine[i] += of_warps[i][warp];
  }
}

/// A thread's part of a row, in registers: as few packs as hold it, so that many rows are under way at once.
template <class T, int width, int packs_a_thread>
struct Part {
  using Number = typename Float<T>::Number;
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
    Number sum[1] = {0};
    each(columns, [&](int p, int) {
#pragma unroll
      for (int j = 0; j < width; ++j) sum[0] += body(value[p][j]);
    });
    block_totals(sum);
    return sum[0];
  }
};

/// Reads x, and adds y and writes the sum where there is one.
template <class T, int width, int packs>
__device__ void load_sum(const NormCall& call, std::int64_t begin, Part<T, width, packs>& row) {
  using P = Part<T, width, packs>;
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
template <class T, int width, int packs>
__global__ void __launch_bounds__(1024) forward_row(const __grid_constant__ NormCall call) {
  using P = Part<T, width, packs>;
  using Number = typename P::Number;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (call.columns / width);
  const Number columns = static_cast<Number>(call.columns), one = call.adds_one ? 1 : 0;
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
      const Number scaled = (row.value[p][j] - mean) * rstd * (P::number(weight, j) + one);
      out.value[j] = Float<T>::store(call.bias != nullptr ? scaled + P::number(bias, j) : scaled);
    }
    static_cast<typename P::Pack*>(call.out)[begin + c] = out;
  });
}

template <class T, int width, int packs>
__global__ void __launch_bounds__(1024) backward_row(const __grid_constant__ NormBackward call) {
  using P = Part<T, width, packs>;
  using Number = typename P::Number;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (call.columns / width);
  const Number columns = static_cast<Number>(call.columns), one = call.adds_one ? 1 : 0;
  const Number rstd = static_cast<const Number*>(call.rstd)[blockIdx.x];
  const Number mean = call.mean != nullptr ? static_cast<const Number*>(call.mean)[blockIdx.x] : Number{0};
  P z, g;
  typename P::Pack residual[packs] = {};  // read now, so that it comes while the totals are taken
  Number totals[2] = {0, 0};              // the sums of g z and of g
  P::each(call.columns, [&](int p, int c) {
    const typename P::Pack x = P::packs(call.x)[begin + c], gradient = P::packs(call.normed)[begin + c];
    if (call.residual != nullptr) residual[p] = P::packs(call.residual)[begin + c];
    const typename P::Pack weight = P::packs(call.weight)[c];
#pragma unroll
    for (int j = 0; j < width; ++j) {
      z.value[p][j] = (P::number(x, j) - mean) * rstd;
      g.value[p][j] = P::number(gradient, j) * (P::number(weight, j) + one);
      totals[0] += g.value[p][j] * z.value[p][j];
      totals[1] += g.value[p][j];
    }
  });
  block_totals(totals);
  const Number mean_z = totals[0] / columns;
  const Number mean_g = call.mean != nullptr ? totals[1] / columns : Number{0};
  P::each(call.columns, [&](int p, int c) {
    typename P::Pack out;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const Number own = (g.value[p][j] - mean_g - z.value[p][j] * mean_z) * rstd;
      out.value[j] = Float<T>::store(call.residual != nullptr ? own + P::number(residual[p], j) : own);
    }
    static_cast<typename P::Pack*>(call.out)[begin + c] = out;
  });
}

/// body(Packed<T, width>{}, packs a thread, threads) with as many whole warps as hold a row of packs of 16 bytes.
template <class Body>
void with_row(FloatType type, int columns, const Body& body) {
  with_type(type, [&](auto zero) {
    constexpr int width = 16 / sizeof(zero), fewest = 128, most = 1024;
    const Packed<decltype(zero), width> pack{};
    const int packs = columns / width;
    int threads = fewest;
    while (threads < most && threads * 2 < packs) threads *= 2;
    if (packs <= threads) return body(pack, std::integral_constant<int, 1>(), threads);
    if (packs <= 2 * threads) return body(pack, std::integral_constant<int, 2>(), threads);
    body(pack, std::integral_constant<int, 4>(), threads);
  });
}

}  // namespace

void add_norm(const NormCall& call, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(call.rows);
  with_row(call.type, call.columns, [&]<class T, int width>(Packed<T, width>, auto packs, int threads) {
    forward_row<T, width, decltype(packs)::value><<<blocks, threads, 0, stream>>>(call);
  });
}

void add_norm_backward(const NormBackward& call, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(call.rows);
  with_row(call.type, call.columns, [&]<class T, int width>(Packed<T, width>, auto packs, int threads) {
    backward_row<T, width, decltype(packs)::value><<<blocks, threads, 0, stream>>>(call);
  });
}

}  // namespace capstan::kernels
