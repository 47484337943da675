// Attention of one token a row to a cache, on tensor cores: two warps have a block of keys, whose tiles travel to
// shared memory while they compute with those before (flash decoding, Dao et al. 2023).
#include <cuda_pipeline.h>
#include <type_traits>

#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int keys = 16, most_queries = 8, pack = 8;          // a tile's; a thread block's; 16 bytes
constexpr int warps = 2, threads = warps * warp, stages = 2;  // a thread block's; a warp's tiles at once
// Compute capability 7.5, whose code calls none of this, has these three without a user.
[[maybe_unused]] constexpr float log2_e = 1.4426950408889634f;  // exponentials are powers of two

/// Four matrices of 8 x 8, transposed, whose rows begin where each thread's `row` says.
[[maybe_unused]] __device__ void load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))));
}

/// sums [8, 8] += a [8, 16] b [16, 8]. The instruction has 16 rows; the last eight are zeros.
#define CAPSTAN_MULTIPLY(type)                                                        \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %8, %5, %8}, {%6, %7}, {%0, %1, %2, %3};" \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(none[0]), "+f"(none[1])           \
               : "r"(a[0]), "r"(a[1]), "r"(b0), "r"(b1), "r"(0u))
template <class T>
__device__ void multiply(float (&sums)[2], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  float none[2] = {0, 0};
  if constexpr (std::is_same_v<T, __half>) {
    CAPSTAN_MULTIPLY("f16");
  } else {
    CAPSTAN_MULTIPLY("bf16");
  }
}

template <class T>
__device__ unsigned both(float first, float second) {
  const Packed<T, 2> two{Float<T>::store(first), Float<T>::store(second)};
  return *reinterpret_cast<const unsigned*>(&two);
}

/// The most of a row's numbers, which four neighbours hold.
[[maybe_unused]] __device__ float most_of_row(float x) {
  x = max(x, __shfl_xor_sync(all_lanes, x, 1));
  return max(x, __shfl_xor_sync(all_lanes, x, 2));
}

/// What a tile takes in shared memory: rows are 16 bytes longer than `width` columns, so that eight of them lie
/// in different banks.
template <class T, int width>
struct Tile {
  static constexpr int row = width + pack;
  T key[keys][row], value[keys][row];
};

/// A thread block has a row, up to eight heads that share a head of keys, and a block of keys. Its warps take turns
/// with the tiles of these, and each has a result of its own until they join them.
template <class T, int width>
struct Block {
  const DecodeCall& call;
  const int group = call.q.heads / call.k.heads, tiles = (group + most_queries - 1) / most_queries;
  const int kv_head = static_cast<int>(blockIdx.y) / tiles, part = static_cast<int>(blockIdx.y) % tiles;
  const int first = kv_head * group + part * most_queries, count = min(most_queries, group - part * most_queries);
  const int lane = static_cast<int>(threadIdx.x) % warp, query = lane / 4, column = 2 * (lane % 4);
  const bool is_first = threadIdx.x < warp;  // warp
  const std::int64_t row = blockIdx.x, position = call.positions[row];
  const std::int64_t begin = max(position + 1 - call.window, blockIdx.z* decode_keys);
  const std::int64_t end = min(position + 1, (blockIdx.z + 1) * decode_keys);
  unsigned q[width / 16][2];
  float sums[width / 8][2] = {}, top = -INFINITY, sum = 0;

  /// This thread's numbers of the queries; zeros where there is none.
  __device__ void load_queries() {
    const T* const from = static_cast<const T*>(call.q.data) + call.q.offset(row, 0, first + query);
#pragma unroll
    for (int i = 0; i < width / 8; ++i) {
      const int at = 8 * i + column;
      q[i / 2][i % 2] = query < count && at < call.dim ? *reinterpret_cast<const unsigned*>(from + at) : 0;
    }
  }

  /// Sends a tile's keys and values on their way; the new token's join the cache.
  __device__ void fetch(Tile<T, width>& tile, std::int64_t from) const {
    for (int i = lane; i < keys * width / pack; i += warp) {
      const int key = i / (width / pack), at = i % (width / pack) * pack;
      const auto t = from + key;
      const bool is_there = t < end && at < call.dim;
      const auto place = is_there ? ((row * call.k.heads + kv_head) * call.capacity + t) * call.dim + at : 0;
      const T *k = static_cast<T*>(call.keys) + place, *v = static_cast<T*>(call.values) + place;
      if (is_there && t == position) {
        k = static_cast<const T*>(call.k.data) + call.k.offset(row, 0, kv_head) + at;
        v = static_cast<const T*>(call.v.data) + call.v.offset(row, 0, kv_head) + at;
        if (part == 0) {
          *reinterpret_cast<int4*>(static_cast<T*>(call.keys) + place) = *reinterpret_cast<const int4*>(k);
          *reinterpret_cast<int4*>(static_cast<T*>(call.values) + place) = *reinterpret_cast<const int4*>(v);
        }
      }
      __pipeline_memcpy_async(&tile.key[key][at], k, 16, is_there ? 0 : 16);
      __pipeline_memcpy_async(&tile.value[key][at], v, 16, is_there ? 0 : 16);
    }
    __pipeline_commit();
  }

  /// q · key and its bias, as a power of two: of eight keys, then of the next eight.
  __device__ void score(const Tile<T, width>& tile, std::int64_t from, float slope, float (&scores)[2][2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scores[half][0] = scores[half][1] = 0;
      const auto* const k = reinterpret_cast<const unsigned*>(&tile.key[8 * half + query][column]);
#pragma unroll
      for (int i = 0; i < width / 16; ++i) multiply<T>(scores[half], q[i], k[8 * i], k[8 * i + 4]);
      for (int i = 0; i < 2; ++i) {
        const auto t = from + 8 * half + column + i;
        const float bias = slope * static_cast<float>(t);
        scores[half][i] = t < end ? static_cast<float>(call.scale) * log2_e * scores[half][i] + bias : -INFINITY;
      }
    }
  }

  __device__ void add(const Tile<T, width>& tile, float (&scores)[2][2]) {
    const float here = max(max(scores[0][0], scores[0][1]), max(scores[1][0], scores[1][1]));
    const float most = max(top, most_of_row(here));
    const float factor = exp2f(top - most);
    top = most;
    sum *= factor;
#pragma unroll
    for (auto& two : sums) {
      two[0] *= factor;
      two[1] *= factor;
    }
    unsigned weights[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float a = exp2f(scores[half][0] - most), b = exp2f(scores[half][1] - most);
      sum += a + b;
      weights[half] = both<T>(a, b);
    }
#pragma unroll
    for (int i = 0; i < width / 16; ++i) {
      unsigned v[4];
      load_matrices(v, &tile.value[lane % 16][16 * i + lane / 16 * 8]);
      multiply<T>(sums[2 * i], weights, v[0], v[1]);
      multiply<T>(sums[2 * i + 1], weights, v[2], v[3]);
    }
  }

  __device__ void add_keys(Tile<T, width>* tile) {
    const float slope =
        call.slopes && query < count ? static_cast<const float*>(call.slopes)[first + query] * log2_e : 0.0f;
    const auto start = is_first ? begin : begin + keys;
    if (start < end) fetch(tile[0], start);
    for (auto from = start, stage = std::int64_t{0}; from < end; from += warps * keys, stage ^= 1) {
      const bool is_last = from + warps * keys >= end;
      if (!is_last) fetch(tile[stage ^ 1], from + warps * keys);
      is_last ? __pipeline_wait_prior(0) : __pipeline_wait_prior(1);
      __syncwarp();  // what other threads fetched is there
      float scores[2][2];
      score(tile[stage], from, slope, scores);
      add(tile[stage], scores);
      __syncwarp();  // all threads have read it
    }
    sum = sum_of_lanes(sum, 4);
  }

  /// Adds to the first warp's what the other one has, which may be nothing.
  __device__ void join(float (*theirs)[warp]) {
    if (!is_first) {
      theirs[0][lane] = top;
      theirs[1][lane] = sum;
      for (int i = 0; i < width / 4; ++i) theirs[2 + i][lane] = sums[i / 2][i % 2];
    }
    __syncthreads();
    if (!is_first) return;
    const float most = max(top, theirs[0][lane]), of_own = exp2f(top - most), of_theirs = exp2f(theirs[0][lane] - most);
    top = most;
    sum = of_own * sum + of_theirs * theirs[1][lane];
#pragma unroll
    for (int i = 0; i < width / 4; ++i)
      sums[i / 2][i % 2] = of_own * sums[i / 2][i % 2] + of_theirs * theirs[2 + i][lane];
  }

  /// The result, or this block's part of it.
  __device__ void write() const {
    const std::int64_t to = row * call.q.heads + first + query;
    float* const part = static_cast<float*>(call.partial) + (to * gridDim.z + blockIdx.z) * (call.dim + 2);
#pragma unroll
    for (int i = 0; i < width / 8; ++i) {
      const int at = 8 * i + column;
      if (query >= count || at >= call.dim) return;
      if (call.partial == nullptr) {
        *reinterpret_cast<unsigned*>(static_cast<T*>(call.out) + to * call.dim + at) =
            both<T>(sums[i][0] / sum, sums[i][1] / sum);
      } else {
        part[at] = sums[i][0];
        part[at + 1] = sums[i][1];
        part[call.dim] = top;  // the same for every column
        part[call.dim + 1] = sum;
      }
    }
  }
};

template <class T, int width>
__global__ __launch_bounds__(threads) void decode(const __grid_constant__ DecodeCall call) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ int4 memory[];
  Block<T, width> block{call};
  if (block.begin >= block.end) return;
  block.load_queries();
  auto* const tiles = reinterpret_cast<Tile<T, width>*>(memory);
  block.add_keys(block.is_first ? tiles : tiles + stages);
  block.join(reinterpret_cast<float(*)[warp]>(tiles + stages));
  if (block.is_first) block.write();
#endif
}

/// A thread block a query: the sum of its parts.
template <class T>
__global__ void join_blocks(const __grid_constant__ DecodeCall call) {
  const std::int64_t query = blockIdx.x, position = call.positions[query / call.q.heads], size = call.dim + 2;
  const auto first = max(std::int64_t{0}, position + 1 - call.window) / decode_keys, last = position / decode_keys;
  const float* const parts =
      static_cast<const float*>(call.partial) + query * parts_of(call.capacity, decode_keys) * size;
  const int column = static_cast<int>(threadIdx.x);
  if (column >= call.dim) return;
  float top = -INFINITY, value = 0, sum = 0;
  for (auto b = first; b <= last; ++b) top = max(top, parts[b * size + call.dim]);
  for (auto b = first; b <= last; ++b) {
    const float factor = exp2f(parts[b * size + call.dim] - top);
    value += factor * parts[b * size + column];
    sum += factor * parts[b * size + call.dim + 1];
  }
  static_cast<T*>(call.out)[query * call.dim + column] = Float<T>::store(value / sum);
}

template <class T, int width>
void launch(const DecodeCall& call, CUstream_st* stream) {
  constexpr int memory = warps * stages * sizeof(Tile<T, width>), joined = 256;
  const int tiles = (call.q.heads / call.k.heads + most_queries - 1) / most_queries;
  const dim3 grid(static_cast<unsigned>(call.batch), static_cast<unsigned>(call.k.heads * tiles),
                  static_cast<unsigned>(parts_of(call.capacity, decode_keys)));
  cudaFuncSetAttribute(decode<T, width>, cudaFuncAttributeMaxDynamicSharedMemorySize, memory);
  decode<T, width><<<grid, threads, memory, stream>>>(call);
  if (call.partial != nullptr)
    join_blocks<T><<<static_cast<unsigned>(call.batch * call.q.heads), joined, 0, stream>>>(call);
}

}  // namespace

void decode_attention(const DecodeCall& call, CUstream_st* stream) {
  const auto launch_for = [&](auto zero) {
    using T = decltype(zero);
    if (call.dim <= 64) return launch<T, 64>(call, stream);
    call.dim <= 128 ? launch<T, 128>(call, stream) : launch<T, 256>(call, stream);
  };
  call.type == FloatType::half ? launch_for(__half{}) : launch_for(__nv_bfloat16{});
}

}  // namespace capstan::kernels
