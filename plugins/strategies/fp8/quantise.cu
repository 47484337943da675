#include "quantise.cuh"

namespace fp8::kernels {
namespace {

constexpr int most_threads = 512;  // in rows_kernel: two such thread blocks fit a multiprocessor
constexpr std::int64_t most_blocks = 1 << 30;
constexpr int few = 4, many = 8;  // packs of a row that a thread keeps, so that memory is read once

/// A thread's part of a row: the packs that it keeps, and those beyond, which are read again when they are needed.
template <class T, int kept>
struct RowPart {
  using P = Pack<T>;
  P mine[kept];
  const uint4* x;
  int packs;

  __device__ RowPart(const QuantiseCall& call, std::int64_t row)
      : mine{}, packs(static_cast<int>(call.columns / P::width)) {
    x = static_cast<const uint4*>(call.x) + row * packs;
    each_kept([&](int i, int p) { mine[i] = load<T>(x, p); });
  }
  /// body(which, pack of the row)
  template <class Body>
  __device__ void each_kept(const Body& body) const {
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      const int p = static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x);
      if (p < packs) body(i, p);
    }
  }
  template <class Body>
  __device__ void each_beyond(const Body& body) const {
    for (int p = static_cast<int>(threadIdx.x + kept * blockDim.x); p < packs; p += static_cast<int>(blockDim.x))
      body(p);
  }
  __device__ Word magnitude() const {
    Word largest = 0;
#pragma unroll
    for (int i = 0; i < kept; ++i) enlarge(largest, mine[i]);
    each_beyond([&](int p) { enlarge(largest, load<T>(x, p)); });
    return P::largest(largest);
  }
  template <bool e5m2>
  __device__ void count(const QuantiseCall& call, std::int64_t row, float inverse) const {
    if (call.counts == nullptr) return;
    ZeroCount zeros;
    if (row % counted_rows == 0) {
      each_kept([&](int i, int) { zeros.add<e5m2>(mine[i], inverse); });
      each_beyond([&](int p) { zeros.add<e5m2>(load<T>(x, p), inverse); });
    }
    add_row(call.counts, row, call.batch * call.rows, inverse, zeros);
  }
  template <bool e5m2>
  __device__ void write(void* values, float inverse) const {
    each_kept([&](int i, int p) { store<e5m2>(mine[i], inverse, values, p); });
    each_beyond([&](int p) { store<e5m2>(load<T>(x, p), inverse, values, p); });
  }
};

/// A thread block a row at a time.
template <class T, bool e5m2, Magnitude magnitude, int kept>
__global__ void __launch_bounds__(most_threads, 2) rows_kernel(const __grid_constant__ QuantiseCall call) {
  int turn = 0;
  for (std::int64_t row = blockIdx.x; row < call.batch * call.rows; row += gridDim.x, turn = 1 - turn) {
    const RowPart<T, kept> part(call, row);
    Word largest;
    if constexpr (magnitude == Magnitude::given) {
      largest = __float_as_uint(call.magnitudes[call.whole ? 0 : row]);
    } else {
      largest = largest_of_block(part.magnitude(), turn);
    }
    const bool writes = threadIdx.x == 0 && (!call.whole || row == 0);
    if constexpr (magnitude == Magnitude::only) {
      if (writes) call.scales[row] = __uint_as_float(largest);
    } else {
      const Scale scale = scale_for<e5m2>(largest);
      if (writes) call.scales[row] = scale.value;
      part.template write<e5m2>(static_cast<char*>(call.values) + row * call.columns, scale.inverse);
      part.template count<e5m2>(call, row, scale.inverse);
    }
  }
}

/// As few threads as keep a row, in whole warps.
int threads_for(std::int64_t packs, int kept) {
  const auto warps = capstan::kernels::parts_of(packs, kept * warp);
  return static_cast<int>(warps * warp < most_threads ? warps * warp : most_threads);
}

template <Magnitude magnitude>
void launch_rows(const QuantiseCall& call, CUstream_st* stream) {
  const auto rows = call.batch * call.rows, packs = call.columns / pack_of(call);
  const auto blocks = static_cast<unsigned>(rows < most_blocks ? rows : most_blocks);
  with_types(call, [&](auto zero, auto e5m2) {
    using T = decltype(zero);
    constexpr bool is_e5m2 = decltype(e5m2)::value;
    if (packs > few * most_threads) {
      rows_kernel<T, is_e5m2, magnitude, many><<<blocks, threads_for(packs, many), 0, stream>>>(call);
    } else {
      rows_kernel<T, is_e5m2, magnitude, few><<<blocks, threads_for(packs, few), 0, stream>>>(call);
    }
  });
}

}  // namespace

void row_magnitudes(const QuantiseCall& call, CUstream_st* stream) { launch_rows<Magnitude::only>(call, stream); }

void quantise_rows(const QuantiseCall& call, CUstream_st* stream) {
  if (call.magnitudes != nullptr) {
    launch_rows<Magnitude::given>(call, stream);
  } else {
    launch_rows<Magnitude::found>(call, stream);
  }
}

}  // namespace fp8::kernels
