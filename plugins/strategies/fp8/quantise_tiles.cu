// Tiles of 128 x 128 in e4m3, and their transposes: with a scale for each row and column of a tile, or for all of it.
#include "quantise.cuh"

namespace fp8::kernels {
namespace {

constexpr int side = 128;  // a tile's, which a thread block handles
constexpr int strip = 16;  // rows that a thread keeps: in one column their values are 16 bytes of the transpose
constexpr int strips = side / strip;
constexpr int packs_of_warp = warp / strips;  // a warp reads 64 bytes of a row, and writes whole columns

/// A thread's 16 rows of one pack.
template <class T>
struct TilePart {
  using P = Pack<T>;
  static constexpr int packs = side / P::width;  // in a row of a tile
  static constexpr int warps = packs / packs_of_warp;
  static constexpr int threads = warps * warp;
  P mine[strip] = {};
  int lane = static_cast<int>(threadIdx.x) % warp, own_warp = static_cast<int>(threadIdx.x) / warp;
  int pack = own_warp * packs_of_warp + lane % packs_of_warp;  // in the tile's row
  int first = lane / packs_of_warp * strip;                    // row of the tile
  std::int64_t first_row = std::int64_t{blockIdx.y} * side, first_column = std::int64_t{blockIdx.x} * side;

  __device__ explicit TilePart(const BlocksCall& call) {
    const std::int64_t apart = call.columns / P::width, row = first_row + first;
    const std::int64_t at = row * apart + first_column / P::width + pack;
#pragma unroll
    for (int i = 0; i < strip; ++i)
      if (row + i < call.rows) mine[i] = load<T>(call.x, at + i * apart);
  }
  /// Each row's magnitude in this warp's columns, to `largest` [warps][side].
  __device__ void row_magnitudes(Word (*largest)[side]) const {
#pragma unroll
    for (int i = 0; i < strip; ++i) {
      Word all = 0;
      enlarge(all, mine[i]);
      all = P::largest(all);
#pragma unroll
      for (int distance = 1; distance < packs_of_warp; distance *= 2)
        all = max(all, __shfl_xor_sync(~0u, all, distance));
      if (lane % packs_of_warp == 0) largest[own_warp][first + i] = all;
    }
  }
  /// Each column's magnitude, as words of packs, to `largest` [packs * 4].
  __device__ void column_magnitudes(Word* largest) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      Word all = 0;
#pragma unroll
      for (int i = 0; i < strip; ++i) all = P::larger(all, mine[i].magnitudes(j));
#pragma unroll
      for (int distance = packs_of_warp; distance < warp; distance *= 2)
        all = P::larger(all, __shfl_xor_sync(~0u, all, distance));
      if (lane < packs_of_warp) largest[4 * pack + j] = all;
    }
  }
  /// inverse(row of the tile)
  template <class Inverse>
  __device__ void write_rows(const BlocksCall& call, const Inverse& inverse) const {
    const std::int64_t apart = call.columns / P::width;
    const std::int64_t at = (first_row + first) * apart + first_column / P::width + pack;
#pragma unroll
    for (int i = 0; i < strip; ++i) store<false>(mine[i], inverse(first + i), call.values, at + i * apart);
  }
  /// inverse(column of the tile)
  template <class Inverse>
  __device__ void write_columns(const BlocksCall& call, const Inverse& inverse) const {
    const std::int64_t apart = call.padded_rows / strip;
    auto* to =
        static_cast<uint4*>(call.transposed) + (first_column + pack * P::width) * apart + (first_row + first) / strip;
#pragma unroll
    for (int j = 0; j < P::width; ++j) {
      const float by = inverse(pack * P::width + j);
      const auto word = [&](int i) {
        return four<false>(mine[i][j] * by, mine[i + 1][j] * by, mine[i + 2][j] * by, mine[i + 3][j] * by);
      };
      to[j * apart] = make_uint4(word(0), word(4), word(8), word(12));
    }
  }
  /// Counts the numbers of the tile's first row.
  __device__ void count(const BlocksCall& call, float inverse) const {
    __shared__ Word zeroed, all;
    if (threadIdx.x == 0) zeroed = all = 0;
    __syncthreads();
    if (first == 0) {
      ZeroCount zeros;
      zeros.add<false>(mine[0], inverse);
      atomicAdd(&zeroed, zeros.zeroed);
      atomicAdd(&all, zeros.all);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    add_count(call.counts, zeroed);
    add_count(call.counts + 1, all);
    if (first_row == 0 && first_column == 0) add_count(call.counts + 3, call.rows * (call.columns / side));
  }
};

/// blockIdx: tile of the columns, tile of the rows.
template <class T>
__global__ void __launch_bounds__(TilePart<T>::threads) both_kernel(const __grid_constant__ BlocksCall call) {
  using P = Pack<T>;
  constexpr int warps = TilePart<T>::warps;
  __shared__ Word of_rows[warps][side], of_columns[TilePart<T>::packs * 4];
  __shared__ float inverse_of_row[side], inverse_of_column[side];
  const TilePart<T> part(call);
  part.row_magnitudes(of_rows);
  part.column_magnitudes(of_columns);
  __syncthreads();
  if (const int i = static_cast<int>(threadIdx.x); i < side) {
    Word largest = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) largest = max(largest, of_rows[w][i]);
    const Scale row = scale_for<false>(largest);
    const Scale column = scale_for<false>(P::magnitude(of_columns[i * 4 / P::width], i));
    inverse_of_row[i] = row.inverse;
    inverse_of_column[i] = column.inverse;
    call.scales[blockIdx.x * call.padded_rows + part.first_row + i] = row.value;
    call.transposed_scales[blockIdx.y * call.columns + part.first_column + i] = column.value;
    if (call.counts != nullptr && isnan(row.inverse) && part.first_row + i < call.rows) add_count(call.counts + 2, 1);
  }
  __syncthreads();
  part.write_rows(call, [&](int i) { return inverse_of_row[i]; });
  part.write_columns(call, [&](int i) { return inverse_of_column[i]; });
  if (call.counts != nullptr) part.count(call, inverse_of_row[0]);
}

template <class T>
__global__ void __launch_bounds__(TilePart<T>::threads) tiles_kernel(const __grid_constant__ BlocksCall call) {
  using P = Pack<T>;
  const TilePart<T> part(call);
  Word largest = 0;
#pragma unroll
  for (int i = 0; i < strip; ++i) enlarge(largest, part.mine[i]);
  const Scale scale = scale_for<false>(largest_of_block(P::largest(largest), 0));
  const auto inverse = [&](int) { return scale.inverse; };
  if (call.values != nullptr) {
    if (threadIdx.x == 0) call.scales[blockIdx.y * call.scales_apart + blockIdx.x] = scale.value;
    part.write_rows(call, inverse);
  }
  if (call.transposed != nullptr) {
    if (threadIdx.x == 0) call.transposed_scales[blockIdx.x * call.transposed_scales_apart + blockIdx.y] = scale.value;
    part.write_columns(call, inverse);
  }
}

dim3 grid_of_tiles(const BlocksCall& call) {
  return {static_cast<unsigned>(call.columns / side), static_cast<unsigned>(call.padded_rows / side)};
}

}  // namespace

void quantise_blocks_both(const BlocksCall& call, CUstream_st* stream) {
  if (call.is_bfloat16) {
    both_kernel<__nv_bfloat16><<<grid_of_tiles(call), TilePart<__nv_bfloat16>::threads, 0, stream>>>(call);
  } else {
    both_kernel<float><<<grid_of_tiles(call), TilePart<float>::threads, 0, stream>>>(call);
  }
}

void quantise_tiles(const BlocksCall& call, CUstream_st* stream) {
  if (call.is_bfloat16) {
    tiles_kernel<__nv_bfloat16><<<grid_of_tiles(call), TilePart<__nv_bfloat16>::threads, 0, stream>>>(call);
  } else {
    tiles_kernel<float><<<grid_of_tiles(call), TilePart<float>::threads, 0, stream>>>(call);
  }
}

}  // namespace fp8::kernels
