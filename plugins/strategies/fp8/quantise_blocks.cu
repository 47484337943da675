// Rows in e4m3 by blocks of 128: as they are in memory, and as SwiGLU and its gradient make them.
#include "quantise_swiglu.cuh"

namespace fp8::kernels {
namespace {

constexpr int block = 128;                 // numbers that share a scale
constexpr int numbers = 16;                // a thread's in a block: their values are 16 bytes
constexpr int of_block = block / numbers;  // threads
constexpr int threads = 256;
constexpr int rows_of_threads = threads / of_block;  // rows of a thread block: their scales are neighbours

/// A thread's part of a block of a row.
template <class T>
struct BlockPart {
  using P = Pack<T>;
  static constexpr int packs = numbers / P::width;
  P pack[packs] = {};

  __device__ void read(const void* x, std::int64_t element) {
#pragma unroll
    for (int i = 0; i < packs; ++i) pack[i] = load<T>(x, element / P::width + i);
  }
  /// The whole block's: the largest of its threads'.
  __device__ Word magnitude() const {
    Word largest = 0;
#pragma unroll
    for (int i = 0; i < packs; ++i) enlarge(largest, pack[i]);
    largest = P::largest(largest);
#pragma unroll
    for (int distance = of_block / 2; distance > 0; distance /= 2)
      largest = max(largest, __shfl_xor_sync(~0u, largest, distance));
    return largest;
  }
  __device__ float operator[](int i) const { return pack[i / P::width][i % P::width]; }
  __device__ Word rounded(int i, float inverse) const {
    const BlockPart& x = *this;
    return four<false>(x[i] * inverse, x[i + 1] * inverse, x[i + 2] * inverse, x[i + 3] * inverse);
  }
};

/// Where a thread is in the result: row, and of its 16 numbers the first one's column.
struct BlockPlace {
  int lane = static_cast<int>(threadIdx.x) % of_block;
  std::int64_t row = std::int64_t{blockIdx.y} * rows_of_threads + threadIdx.x / of_block;
  std::int64_t column = std::int64_t{blockIdx.x} * block + lane * numbers;
};

/// `column`: the result's. Counts the numbers of every 128th row, which is a thread block's first.
template <class T>
__device__ void count_part(const BlocksCall& call, const BlockPlace& at, std::int64_t column, float inverse,
                           const BlockPart<T>& mine) {
  if (call.counts == nullptr || at.row >= call.rows) return;
  if (at.row == 0 && column == 0) add_count(call.counts + 3, call.rows * (call.columns / block));
  if (at.lane == 0 && isnan(inverse)) add_count(call.counts + 2, 1);
  if (at.row % block != 0) return;
  ZeroCount zeros;
#pragma unroll
  for (int i = 0; i < BlockPart<T>::packs; ++i) zeros.add<false>(mine.pack[i], inverse);
  constexpr Word first_threads = (1u << of_block) - 1;
#pragma unroll
  for (int distance = of_block / 2; distance > 0; distance /= 2) {
    zeros.zeroed += __shfl_xor_sync(first_threads, zeros.zeroed, distance);
    zeros.all += __shfl_xor_sync(first_threads, zeros.all, distance);
  }
  if (at.lane != 0) return;
  add_count(call.counts, zeros.zeroed);
  add_count(call.counts + 1, zeros.all);
}

template <class T>
__device__ void write_part(const BlocksCall& call, const BlockPlace& at, std::int64_t column,
                           const BlockPart<T>& mine) {
  const Scale scale = scale_for<false>(mine.magnitude());
  static_cast<uint4*>(call.values)[(at.row * call.columns + column) / numbers] =
      make_uint4(mine.rounded(0, scale.inverse), mine.rounded(4, scale.inverse), mine.rounded(8, scale.inverse),
                 mine.rounded(12, scale.inverse));
  if (at.lane == 0) call.scales[column / block * call.padded_rows + at.row] = scale.value;
  count_part(call, at, column, scale.inverse, mine);
}

/// blockIdx: block of the rows, rows.
template <class T>
__global__ void __launch_bounds__(threads) blocks_kernel(const __grid_constant__ BlocksCall call) {
  const BlockPlace at;
  BlockPart<T> mine;
  if (at.row < call.rows) mine.read(call.x, at.row * call.columns + at.column);
  write_part(call, at, at.column, mine);
}

/// x [rows, 2 columns].
__global__ void __launch_bounds__(threads) swiglu_blocks_kernel(const __grid_constant__ BlocksCall call) {
  const BlockPlace at;
  BlockPart<SwigluType> mine, gate, up;
  if (at.row < call.rows) {
    const std::int64_t first = at.row * 2 * call.columns + at.column;
    gate.read(call.x, first);
    up.read(call.x, first + call.columns);
#pragma unroll
    for (int i = 0; i < BlockPart<SwigluType>::packs; ++i) mine.pack[i] = swiglu_pack(gate.pack[i], up.pack[i]);
  }
  write_part(call, at, at.column, mine);
}

/// x [rows, columns], gradient [rows, columns / 2].
__global__ void __launch_bounds__(threads)
    swiglu_blocks_backward_kernel(const __grid_constant__ BlocksCall call, const void* gradient) {
  const BlockPlace at;
  const std::int64_t half = call.columns / 2;
  BlockPart<SwigluType> of_gate, of_up, gate, up, g;
  if (at.row < call.rows) {
    gate.read(call.x, at.row * call.columns + at.column);
    up.read(call.x, at.row * call.columns + half + at.column);
    g.read(gradient, at.row * half + at.column);
#pragma unroll
    for (int i = 0; i < BlockPart<SwigluType>::packs; ++i)
      gradient_packs(of_gate.pack[i], of_up.pack[i], g.pack[i], gate.pack[i], up.pack[i]);
  }
  write_part(call, at, at.column, of_gate);
  write_part(call, at, half + at.column, of_up);
}

dim3 grid_of_rows(const BlocksCall& call, std::int64_t columns) {
  return {static_cast<unsigned>(columns / block), static_cast<unsigned>(call.padded_rows / rows_of_threads)};
}

}  // namespace

void quantise_blocks(const BlocksCall& call, CUstream_st* stream) {
  const auto grid = grid_of_rows(call, call.columns);
  if (call.is_bfloat16) {
    blocks_kernel<__nv_bfloat16><<<grid, threads, 0, stream>>>(call);
  } else {
    blocks_kernel<float><<<grid, threads, 0, stream>>>(call);
  }
}

void quantise_swiglu_blocks(const BlocksCall& call, CUstream_st* stream) {
  swiglu_blocks_kernel<<<grid_of_rows(call, call.columns), threads, 0, stream>>>(call);
}

void quantise_swiglu_blocks_backward(const BlocksCall& call, const void* gradient, CUstream_st* stream) {
  swiglu_blocks_backward_kernel<<<grid_of_rows(call, call.columns / 2), threads, 0, stream>>>(call, gradient);
}

}  // namespace fp8::kernels
