#include "quantise_swiglu.cuh"

namespace fp8::kernels {
namespace {

constexpr int kept = 4;  // packs of each half that a thread keeps
constexpr int most_threads = 512;

using T = SwigluType;
using P = SwigluPack;

/// A thread block a row: x [rows, 2 columns], values [rows, columns].
template <bool e5m2>
__global__ void __launch_bounds__(most_threads, 2) forward(const __grid_constant__ QuantiseCall call) {
  const std::int64_t row = blockIdx.x;
  const int packs = static_cast<int>(call.columns / P::width);
  const uint4* const x = static_cast<const uint4*>(call.x) + row * 2 * packs;
  P mine[kept] = {};
  Word largest = 0;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (p < packs) mine[i] = swiglu_pack(load<T>(x, p), load<T>(x, packs + p));
    enlarge(largest, mine[i]);
  }
  const Scale scale = scale_for<e5m2>(largest_of_block(P::largest(largest), 0));
  if (threadIdx.x == 0) call.scales[row] = scale.value;
  char* const values = static_cast<char*>(call.values) + row * call.columns;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (p < packs) store<e5m2>(mine[i], scale.inverse, values, p);
  }
  if (call.counts == nullptr) return;
  ZeroCount zeros;
#pragma unroll
  for (int i = 0; i < kept; ++i) zeros.add<e5m2>(mine[i], scale.inverse);
  add_row(call.counts, row, call.rows, scale.inverse, zeros);
}

/// A thread block a row: x and values [rows, 2 columns], gradient [rows, columns].
template <bool e5m2>
__global__ void __launch_bounds__(most_threads, 2)
    backward(const __grid_constant__ QuantiseCall call, const void* gradient) {
  const std::int64_t row = blockIdx.x;
  const int packs = static_cast<int>(call.columns / P::width);
  const uint4* const x = static_cast<const uint4*>(call.x) + row * 2 * packs;
  const uint4* const g = static_cast<const uint4*>(gradient) + row * packs;
  P of_gate[kept] = {}, of_up[kept] = {};
  Word largest = 0;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (p < packs) gradient_packs(of_gate[i], of_up[i], load<T>(g, p), load<T>(x, p), load<T>(x, packs + p));
    enlarge(largest, of_gate[i]);
    enlarge(largest, of_up[i]);
  }
  const Scale scale = scale_for<e5m2>(largest_of_block(P::largest(largest), 0));
  if (threadIdx.x == 0) call.scales[row] = scale.value;
  char* const values = static_cast<char*>(call.values) + row * 2 * call.columns;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (p >= packs) continue;
    store<e5m2>(of_gate[i], scale.inverse, values, p);
    store<e5m2>(of_up[i], scale.inverse, values, packs + p);
  }
  if (call.counts == nullptr) return;
  ZeroCount zeros;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    zeros.add<e5m2>(of_gate[i], scale.inverse);
    zeros.add<e5m2>(of_up[i], scale.inverse);
  }
  add_row(call.counts, row, call.rows, scale.inverse, zeros);
}

int threads_for_half(const QuantiseCall& call) {
  const auto packs = call.columns / P::width;
  return static_cast<int>(capstan::kernels::parts_of(packs, kept * warp)) * warp;
}

}  // namespace

void quantise_swiglu(const QuantiseCall& call, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(call.rows);
  const int threads = threads_for_half(call);
  if (call.e5m2) {
    forward<true><<<blocks, threads, 0, stream>>>(call);
  } else {
    forward<false><<<blocks, threads, 0, stream>>>(call);
  }
}

void quantise_swiglu_backward(const QuantiseCall& call, const void* gradient, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(call.rows);
  const int threads = threads_for_half(call);
  if (call.e5m2) {
    backward<true><<<blocks, threads, 0, stream>>>(call, gradient);
  } else {
    backward<false><<<blocks, threads, 0, stream>>>(call, gradient);
  }
}

}  // namespace fp8::kernels
