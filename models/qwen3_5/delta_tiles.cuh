#pragma once
// Tiles of bfloat16 in shared memory, and their products on tensor cores (compute capability 8.0 and later; code for
// older GPUs is compiled and not run).
#include <cuda_pipeline.h>
#include <capstan/kernels/floats.cuh>
#include <capstan/kernels/warps.cuh>

#include "delta_kernels.h"

namespace qwen3_5 {

using bfloat16 = __nv_bfloat16;

namespace tiles {

constexpr int chunk = delta_chunk, warp_count = 8, threads = warp_count * 32;
constexpr int pack = 8;  // bfloat16 in 16 bytes

/// Rows of `columns`, each 16 bytes longer than that, so that eight of them lie in different banks.
template <int columns>
struct Tile {
  static constexpr int stride = columns + pack;
  bfloat16* data;
  __device__ bfloat16* at(int row, int column) const { return data + row * stride + column; }
};

/// Bytes of a tile with `rows` rows: whole 16 bytes.
CAPSTAN_HOST_DEVICE constexpr int tile_bytes(int rows, int columns) { return rows * (columns + pack) * 2; }

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / 32; }

/// Queues copies of rows [rows, columns] that lie `stride` elements apart; those from `valid` on become zeros. Each
/// thread copies the packs threadIdx.x + i · threads.
template <int rows, int columns>
__device__ void load(Tile<columns> to, const bfloat16* from, std::int64_t stride, int valid = rows) {
  constexpr int packs = columns / pack;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += threads) {
    const int row = i / packs, column = i % packs * pack;
    const bool is_there = row < valid;
    __pipeline_memcpy_async(to.at(row, column), from + (is_there ? row : 0) * stride + column, 16, is_there ? 0 : 16);
  }
}

/// Queues copies of `count` floats, a multiple of 4 that is no more than four for each thread.
__device__ inline void load_floats(float* to, const float* from, int count) {
  const int at = static_cast<int>(threadIdx.x) * 4;
  if (at < count) __pipeline_memcpy_async(to + at, from + at, 16);
}

/// Waits for all copies but those of the last `newer` commits, then for all threads.
__device__ inline void arrive(int newer = 0) {
  if (newer == 0) {
    __pipeline_wait_prior(0);
  } else {
    __pipeline_wait_prior(1);
  }
  __syncthreads();
}

struct Four {
  unsigned part[4];
};

template <bool transposed>
__device__ Four load_matrices(const bfloat16* row) {
  Four to{};
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.part[0]), "=r"(to.part[1]), "=r"(to.part[2]), "=r"(to.part[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.part[0]), "=r"(to.part[1]), "=r"(to.part[2]), "=r"(to.part[3])
                 : "r"(address)
                 : "memory");
  }
#endif
  return to;
}

/// sums [16, 8] += a [16, 16] b [16, 8].
__device__ inline void multiply(float (&sums)[4], const Four& a, unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b0), "r"(b1));
#endif
}

/// How a factor of a product lies in its tile.
enum class Lies { as_it_is, transposed };

/// A warp's sums [16, 8 · tiles] += a [16, depth] b [depth, 8 · tiles]: a from its `row` on, b from its `column` on.
template <int depth, Lies a_lies, Lies b_lies, int count, class A, class B>
__device__ void product(float (&sums)[count][4], A a, int row, B b, int column) {
  static_assert(count % 2 == 0 && depth % 16 == 0);
  const int l = lane(), low = l % 8, middle = l / 8 % 2, high = l / 16;
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    const Four left = a_lies == Lies::as_it_is ? load_matrices<false>(a.at(row + l % 16, k + high * 8))
                                               : load_matrices<true>(a.at(k + low + high * 8, row + middle * 8));
#pragma unroll
    for (int n = 0; n < count; n += 2) {
      const int c = column + n * 8;
      const Four right = b_lies == Lies::as_it_is ? load_matrices<true>(b.at(k + l % 16, c + high * 8))
                                                  : load_matrices<false>(b.at(c + low + high * 8, k + middle * 8));
      multiply(sums[n], left, right.part[0], right.part[1]);
      multiply(sums[n + 1], left, right.part[2], right.part[3]);
    }
  }
}

/// Calls body(two sums side by side, row 0 or 1 of the thread's, row, column of the first) for all sums of a thread.
template <int count, class Body>
__device__ void each_pair(float (&sums)[count][4], int row, int column, const Body& body) {
  const int l = lane();
#pragma unroll
  for (int n = 0; n < count; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      body(sums[n][2 * half], sums[n][2 * half + 1], half, row + l / 4 + 8 * half, column + n * 8 + l % 4 * 2);
  }
}

__device__ inline void store_pair(bfloat16* to, float a, float b) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}

__device__ inline float2 load_pair(const bfloat16* from) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
}

/// Sums of the threads that have the same rows in a warp.
__device__ inline float sum_of_row(float x) { return capstan::kernels::sum_of_lanes(x, 4); }

}  // namespace tiles

/// Numbers of a chunk's tokens: [delta_factors][chunk], as memory has them.
struct Factors {
  float sum[delta_chunk];        ///< of decays, up to the token
  float begun[delta_chunk];      ///< how many sequences have begun in the chunk so far
  float start[delta_chunk];      ///< what is left of the chunk's first state at the token
  float end[delta_chunk];        ///< what is left of the token at the chunk's end
  float inverse_q[delta_chunk];  ///< 1 / q's length, by 1 / sqrt(dim)
  float inverse_k[delta_chunk];
  float beta[delta_chunk];
  /// What is left of token j's part of the state at token i >= j.
  __device__ float between(int i, int j) const { return begun[i] == begun[j] ? __expf(sum[i] - sum[j]) : 0.0F; }
  __device__ float through() const { return start[delta_chunk - 1]; }
};
static_assert(sizeof(Factors) == delta_factors * delta_chunk * sizeof(float));

/// Which chunk of which value head a thread block has.
struct Place {
  int chunk, head, row;
  std::int64_t index;  ///< among all
  int begin, valid;    ///< its first token, and how many there are
  __device__ Place(const DeltaCall& call, std::int64_t at) : index(at) {
    chunk = static_cast<int>(at % call.chunks);
    head = static_cast<int>(at / call.chunks % call.value_heads);
    row = static_cast<int>(at / call.chunks / call.value_heads);
    begin = chunk * delta_chunk;
    valid = min(delta_chunk, call.length - begin);
  }
  __device__ int key_head(const DeltaCall& call) const { return head / (call.value_heads / call.key_heads); }
  __device__ const bfloat16* of(const capstan::kernels::Heads& heads, int which) const {
    return static_cast<const bfloat16*>(heads.data) + heads.offset(row, begin, which);
  }
};

/// 1 / sqrt(the squares' sum + epsilon) of each of a tile's 64 rows, by `scale`. Four threads have a row.
template <int columns>
__device__ void inverse_lengths(float* to, tiles::Tile<columns> x, float scale) {
  const int row = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < columns / 4; i += 2) {
    const float2 two = tiles::load_pair(x.at(row, part * 2 + i * 4));
    sum += two.x * two.x + two.y * two.y;
  }
  sum = capstan::kernels::sum_of_lanes(sum, 4);
  if (part == 0) to[row] = rsqrtf(sum + static_cast<float>(delta_epsilon)) * scale;
}

/// A warp's rows and columns of a matrix of pairs of tokens.
struct PairPart {
  int row = tiles::warp_index() % 4 * 16, column = tiles::warp_index() / 4 * 32;
};

/// What each token's result has of what the tokens up to it write: rounded, in `to`.
template <int dim>
__device__ void results_of_pairs(tiles::Tile<dim> q, tiles::Tile<dim> k, const Factors& f,
                                 tiles::Tile<delta_chunk> to) {
  const PairPart part;
  float qk[4][4] = {};
  tiles::product<dim, tiles::Lies::as_it_is, tiles::Lies::transposed>(qk, q, part.row, k, part.column);
  tiles::each_pair(qk, part.row, part.column, [&](float x, float y, int, int i, int j) {
    const float by = f.inverse_q[i];
    tiles::store_pair(to.at(i, j), i >= j ? by * f.inverse_k[j] * x * f.between(i, j) : 0.0F,
                      i >= j + 1 ? by * f.inverse_k[j + 1] * y * f.between(i, j + 1) : 0.0F);
  });
}

/// Runs a kernel of 256 threads with `bytes` of shared memory.
template <class Kernel>
void run_blocks(Kernel kernel, dim3 grid, int bytes, const DeltaCall& call, CUstream_st* stream) {
  if (bytes > 48 * 1024) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<grid, tiles::threads, static_cast<std::size_t>(bytes), stream>>>(call);
}

inline unsigned blocks_of(const DeltaCall& call) {
  return static_cast<unsigned>(call.batch) * static_cast<unsigned>(call.value_heads) *
         static_cast<unsigned>(call.chunks);
}

}  // namespace qwen3_5
