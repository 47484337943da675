#include "ops/quantise.cuh"

namespace capstan::ops::cuda {
namespace {

constexpr int most_threads = 512;  // of rows_kernel: two such thread blocks fit a multiprocessor
constexpr std::int64_t most_blocks = 1 << 30;
constexpr int few = 4, many = 8;  // packs of a row that a thread keeps, so that memory is read once

__device__ void raise(float* magnitude, Word to) {
  if (to != 0) atomicMax(reinterpret_cast<Word*>(magnitude), to);
}

/// What a row does: its magnitude alone is found; it is found and used; it was found before.
enum class Magnitude { only, found, given };

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

constexpr int across = 32;  // packs of a thread block of column_kernel
constexpr int down = 8;     // rows that it reads at a time

/// blockIdx: packs, parts of the rows, matrix of the stack.
template <class T>
__global__ void column_kernel(const __grid_constant__ QuantiseCall call) {
  using P = Pack<T>;
  __shared__ Word tile[down][across][4 + 1];
  const std::int64_t packs = call.columns / P::width, pack = std::int64_t{blockIdx.x} * across + threadIdx.x;
  const std::int64_t matrix = blockIdx.z, first = std::int64_t{blockIdx.y} * down + threadIdx.y;
  Word largest[4] = {};
#pragma unroll 4
  for (std::int64_t row = pack < packs ? first : call.rows; row < call.rows; row += std::int64_t{gridDim.y} * down) {
    const P mine = load<T>(call.x, (matrix * call.rows + row) * packs + pack);
#pragma unroll
    for (int j = 0; j < 4; ++j) largest[j] = P::larger(largest[j], mine.magnitudes(j));
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) tile[threadIdx.y][threadIdx.x][j] = largest[j];
  __syncthreads();
  if (threadIdx.y != 0) return;
  Word all = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    for (int y = 1; y < down; ++y) largest[j] = P::larger(largest[j], tile[y][threadIdx.x][j]);
    all = P::larger(all, largest[j]);
  }
  if (call.whole) {
    all = largest_of_warp(P::largest(all));
    if (threadIdx.x == 0) raise(call.column_magnitudes, all);
  } else if (pack < packs) {
#pragma unroll
    for (int j = 0; j < P::width; ++j)
      raise(call.column_magnitudes + (matrix * packs + pack) * P::width + j,
            P::magnitude(largest[j * 4 / P::width], j));
  }
}

// A thread block of columns_kernel: 32 times 4 rows of 8 packs. A thread takes 4 rows of a pack, whose numbers in one
// column become a word of the transpose.
constexpr int tile_packs = 8, tile_words = 32, tile_rows = 4 * tile_words, tile_threads = tile_packs * tile_words;

/// Where a column's word is in its row of the tile: so that a warp's words are in different banks of shared memory.
__device__ int place(int column, int word) { return (word + 4 * (column / warp)) % tile_words; }

/// blockIdx: packs, rows, matrix of the stack.
template <class T, bool e5m2>
__global__ void __launch_bounds__(tile_threads) columns_kernel(const __grid_constant__ QuantiseCall call) {
  using P = Pack<T>;
  constexpr int width = P::width, columns = tile_packs * width;
  __shared__ Word tile[columns][tile_words + 1];
  __shared__ float inverse[columns];
  const int thread = static_cast<int>(threadIdx.x), pack = thread % tile_packs, word = thread / tile_packs;
  const std::int64_t matrix = blockIdx.z, first_column = std::int64_t{blockIdx.x} * columns;
  const std::int64_t row = std::int64_t{blockIdx.y} * tile_rows + 4 * word;
  const std::int64_t packs = call.columns / width, at = std::int64_t{blockIdx.x} * tile_packs + pack;
  P mine[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (at < packs && row + i < call.rows) mine[i] = load<T>(call.x, (matrix * call.rows + row + i) * packs + at);
  if (thread < columns && first_column + thread < call.columns) {
    const std::int64_t column = call.whole ? 0 : matrix * call.columns + first_column + thread;
    const Scale scale = scale_for<e5m2>(__float_as_uint(call.magnitudes[column]));
    inverse[thread] = scale.inverse;
    if (blockIdx.y == 0) call.scales[column] = scale.value;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < width; ++j) {
    const int column = pack * width + j;
    const float by = inverse[column];
    tile[column][place(column, word)] = four<e5m2>(mine[0][j] * by, mine[1][j] * by, mine[2][j] * by, mine[3][j] * by);
  }
  __syncthreads();
  const std::int64_t words = call.padded_rows / 4, to = std::int64_t{blockIdx.y} * tile_words + thread % warp;
  for (int column = thread / warp; column < columns; column += tile_threads / warp) {
    if (first_column + column < call.columns && to < words)
      static_cast<Word*>(call.values)[(matrix * call.columns + first_column + column) * words + to] =
          tile[column][place(column, thread % warp)];
  }
}

/// As few threads as keep a row, in whole warps.
int threads_for(std::int64_t packs, int kept) {
  const auto warps = (packs + kept * warp - 1) / (kept * warp);
  return static_cast<int>(warps * warp < most_threads ? warps * warp : most_threads);
}

template <Magnitude magnitude>
void launch_rows(const QuantiseCall& call, CUstream_st* stream) {
  const auto rows = call.batch * call.rows, packs = call.columns / pack_of(call.type);
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

unsigned parts(std::int64_t all, std::int64_t part) { return static_cast<unsigned>((all + part - 1) / part); }

}  // namespace

void row_magnitudes(const QuantiseCall& call, CUstream_st* stream) { launch_rows<Magnitude::only>(call, stream); }

void quantise_rows(const QuantiseCall& call, CUstream_st* stream) {
  if (call.magnitudes != nullptr) {
    launch_rows<Magnitude::given>(call, stream);
  } else {
    launch_rows<Magnitude::found>(call, stream);
  }
}

void column_magnitudes(const QuantiseCall& call, CUstream_st* stream) {
  constexpr int rows_a_thread = 16;
  const auto packs = call.columns / pack_of(call.type);
  const auto of_rows = parts(call.rows, down * rows_a_thread);
  const dim3 grid(parts(packs, across), of_rows < 65535 ? of_rows : 65535, static_cast<unsigned>(call.batch));
  const dim3 block(across, down);
  if (call.type == FloatType::bfloat16) {
    column_kernel<__nv_bfloat16><<<grid, block, 0, stream>>>(call);
  } else {
    column_kernel<float><<<grid, block, 0, stream>>>(call);
  }
}

void quantise_columns(const QuantiseCall& call, CUstream_st* stream) {
  const auto packs = call.columns / pack_of(call.type);
  const dim3 grid(parts(packs, tile_packs), parts(call.padded_rows, tile_rows), static_cast<unsigned>(call.batch));
  with_types(call, [&](auto zero, auto e5m2) {
    columns_kernel<decltype(zero), decltype(e5m2)::value><<<grid, tile_threads, 0, stream>>>(call);
  });
}

}  // namespace capstan::ops::cuda
