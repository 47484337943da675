// Columns of matrices in 8 bits, written as rows of the transpose.
#include <cooperative_groups.h>

#include "quantise.cuh"

namespace fp8::kernels {
namespace {

__device__ void raise(float* magnitude, Word to) {
  if (to != 0) atomicMax(reinterpret_cast<Word*>(magnitude), to);
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

// A thread of strips_kernel keeps 16 rows of a pack: their numbers in one column are 16 bytes of the transpose. A
// warp's threads are 4 packs across and 8 down, so that it reads 64 bytes of each row, and writes 128 of each column.
constexpr int most_strip_threads = 512, strip_packs = 4, strip_rows = 16, strip_words = strip_packs * 4;
// Thread blocks that find their columns' magnitudes together: this many can on every GPU that has clusters.
constexpr int most_together = 8;

template <class T>
struct Strip {
  using P = Pack<T>;
  P mine[strip_rows];
  std::int64_t first, pack;  // row, pack of a row
  bool inside;               // … that exists

  __device__ explicit Strip(const QuantiseCall& call) : mine{} {
    const std::int64_t packs = call.columns / P::width, part = blockIdx.x * (blockDim.x / strip_packs);
    pack = std::int64_t{blockIdx.y} * strip_packs + threadIdx.x % strip_packs;
    first = (part + threadIdx.x / strip_packs) * strip_rows;
    inside = pack < packs && first < call.padded_rows;
    const auto* at = static_cast<const uint4*>(call.x) + (blockIdx.z * call.rows + first) * packs + pack;
#pragma unroll
    for (int i = 0; i < strip_rows; ++i)
      if (inside && first + i < call.rows) mine[i] = load<T>(at, i * packs);
  }
  /// Magnitudes of the columns in this thread block's rows, to `largest` [strip_words], which the first threads write.
  __device__ void magnitudes(Word* largest) const {
    __shared__ Word of_warp[most_strip_threads / warp][strip_words];
    const int lane = static_cast<int>(threadIdx.x) % warp, warps = static_cast<int>(blockDim.x) / warp;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      Word all = 0;
#pragma unroll
      for (int i = 0; i < strip_rows; ++i) all = P::larger(all, mine[i].magnitudes(j));
#pragma unroll
      for (int distance = strip_packs; distance < warp; distance *= 2)
        all = P::larger(all, __shfl_xor_sync(~0u, all, distance));
      if (lane < strip_packs) of_warp[threadIdx.x / warp][4 * lane + j] = all;
    }
    __syncthreads();
    if (threadIdx.x >= strip_words) return;
    Word all = 0;
    for (int i = 0; i < warps; ++i) all = P::larger(all, of_warp[i][threadIdx.x]);
    largest[threadIdx.x] = all;
  }
  template <bool e5m2>
  __device__ void write(const QuantiseCall& call, const float* inverse) const {
    if (!inside) return;
    const std::int64_t apart = call.padded_rows / strip_rows, column = blockIdx.z * call.columns + pack * P::width;
    auto* to = static_cast<uint4*>(call.values) + column * apart + first / strip_rows;
#pragma unroll
    for (int j = 0; j < P::width; ++j) {
      const float by = inverse[threadIdx.x % strip_packs * P::width + j];
      const auto word = [&](int i) {
        return four<e5m2>(mine[i][j] * by, mine[i + 1][j] * by, mine[i + 2][j] * by, mine[i + 3][j] * by);
      };
      to[j * apart] = make_uint4(word(0), word(4), word(8), word(12));
    }
  }
};

/// The thread blocks of one strip: a cluster, where the GPU has them.
#if __CUDA_ARCH__ >= 900
struct Together {
  cooperative_groups::cluster_group blocks = cooperative_groups::this_cluster();
  __device__ void wait() const { blocks.sync(); }
  __device__ int count() const { return static_cast<int>(blocks.num_blocks()); }
  __device__ Word read(Word* mine, int block) const { return *blocks.map_shared_rank(mine, block); }
};
#else
struct Together {
  __device__ void wait() const { __syncthreads(); }
  __device__ int count() const { return 1; }
  __device__ Word read(const Word* mine, int) const { return *mine; }
};
#endif

/// blockIdx: rows, packs, matrix of the stack. Found: all thread blocks of a strip are together.
template <class T, bool e5m2, Magnitude magnitude>
__global__ void __launch_bounds__(most_strip_threads) strips_kernel(const __grid_constant__ QuantiseCall call) {
  using P = Pack<T>;
  constexpr int columns = strip_packs * P::width;
  __shared__ Word largest[strip_words];
  __shared__ float inverse[columns];
  const Strip<T> strip(call);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t in_matrix = std::int64_t{blockIdx.y} * columns + thread;
  const std::int64_t column = call.whole ? 0 : blockIdx.z * call.columns + in_matrix;
  const Together together;
  if constexpr (magnitude == Magnitude::found) {
    strip.magnitudes(largest);
    together.wait();
  }
  if (thread < columns && in_matrix < call.columns) {
    Word all = 0;
    if constexpr (magnitude == Magnitude::given) {
      all = __float_as_uint(call.magnitudes[column]);
    } else {
      for (int block = 0; block < together.count(); ++block)
        all = P::larger(all, together.read(largest + thread * 4 / P::width, block));
      all = P::magnitude(all, thread);
    }
    const Scale scale = scale_for<e5m2>(all);
    inverse[thread] = scale.inverse;
    const bool is_first = in_matrix == 0 && blockIdx.z == 0;
    if (blockIdx.x == 0 && (!call.whole || is_first)) call.scales[column] = scale.value;
  }
  // The second time also because other thread blocks have read from this one.
  if constexpr (magnitude == Magnitude::found) {
    together.wait();
  } else {
    __syncthreads();
  }
  strip.template write<e5m2>(call, inverse);
}

/// Threads of a thread block of strips_kernel, and how many of these a strip has.
struct StripGrid {
  int threads, blocks;
};

StripGrid strip_grid(std::int64_t rows) {
  constexpr int rows_a_thread = strip_rows / strip_packs;
  StripGrid grid{warp, 1};
  while (grid.threads < most_strip_threads / 2 && grid.threads * rows_a_thread < rows) grid.threads *= 2;
  while (grid.blocks < most_together && std::int64_t{grid.threads} * rows_a_thread * grid.blocks < rows)
    grid.blocks *= 2;
  if (std::int64_t{grid.threads} * rows_a_thread * grid.blocks < rows) grid.threads = most_strip_threads;
  return grid;
}

unsigned parts(std::int64_t all, std::int64_t size) {
  return static_cast<unsigned>(capstan::kernels::parts_of(all, size));
}

bool has_clusters() {
  int device = 0, has = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, device);
  return has != 0;
}

template <Magnitude magnitude>
void launch_strips(const QuantiseCall& call, CUstream_st* stream) {
  const auto grid = strip_grid(call.rows);
  const auto rows = std::int64_t{grid.threads} * strip_rows / strip_packs;
  const auto packs = call.columns / pack_of(call);
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeClusterDimension;
  together.val.clusterDim = {static_cast<unsigned>(grid.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(parts(call.padded_rows, rows), parts(packs, strip_packs), static_cast<unsigned>(call.batch));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.stream = stream;
  if (magnitude == Magnitude::found && grid.blocks > 1) {
    config.gridDim.x = static_cast<unsigned>(grid.blocks);
    config.attrs = &together;
    config.numAttrs = 1;
  }
  with_types(call, [&](auto zero, auto e5m2) {
    cudaLaunchKernelEx(&config, strips_kernel<decltype(zero), decltype(e5m2)::value, magnitude>, call);
  });
}

}  // namespace

void column_magnitudes(const QuantiseCall& call, CUstream_st* stream) {
  constexpr int rows_a_thread = 16;
  const auto packs = call.columns / pack_of(call);
  const auto of_rows = parts(call.rows, down * rows_a_thread);
  const dim3 grid(parts(packs, across), of_rows < 65535 ? of_rows : 65535, static_cast<unsigned>(call.batch));
  const dim3 block(across, down);
  if (call.is_bfloat16) {
    column_kernel<__nv_bfloat16><<<grid, block, 0, stream>>>(call);
  } else {
    column_kernel<float><<<grid, block, 0, stream>>>(call);
  }
}

bool finds_columns(const QuantiseCall& call) {
  const auto grid = strip_grid(call.rows);
  constexpr int rows_a_thread = strip_rows / strip_packs;
  return !call.whole && std::int64_t{grid.threads} * rows_a_thread * grid.blocks >= call.rows &&
         (grid.blocks == 1 || has_clusters());
}

void quantise_columns(const QuantiseCall& call, CUstream_st* stream) {
  if (call.magnitudes != nullptr) {
    launch_strips<Magnitude::given>(call, stream);
  } else {
    launch_strips<Magnitude::found>(call, stream);
  }
}

}  // namespace fp8::kernels
