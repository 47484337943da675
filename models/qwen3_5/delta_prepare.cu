// What a chunk's tokens are to each other: their decays, the inverse of the chunk's matrix, and what it makes of values
// and keys. Products of keys and queries are those of the numbers as they are, and are scaled in float32.
#include "delta_tiles.cuh"

namespace qwen3_5 {
namespace {

using namespace tiles;

constexpr int matrix_stride = 68;  // of a float32 matrix [64, 64]: rows begin at whole 16 bytes

/// Where a thread block has what in shared memory.
template <int dim>
struct Room {
  Tile<dim> k, v, q, gradient;
  float* a;  // [chunk, matrix_stride]
  Tile<chunk> p, of_values, of_keys;
  Factors* factors;
  __device__ explicit Room(char* memory) {
    const auto take = [&](int bytes) {
      char* const at = memory;
      memory += bytes;
      return at;
    };
    constexpr int tile = tile_bytes(chunk, dim), pairs = tile_bytes(chunk, chunk);
    k.data = reinterpret_cast<bfloat16*>(take(tile));
    v.data = reinterpret_cast<bfloat16*>(take(tile));
    a = reinterpret_cast<float*>(take(chunk * matrix_stride * 4));
    p.data = of_keys.data = reinterpret_cast<bfloat16*>(take(pairs));  // p is read before the other is written
    factors = reinterpret_cast<Factors*>(take(sizeof(Factors)));
    q.data = of_values.data = reinterpret_cast<bfloat16*>(take(tile));  // so is q
    gradient.data = reinterpret_cast<bfloat16*>(memory);
  }
  static constexpr int bytes(bool for_backward) {
    const int tile = tile_bytes(chunk, dim), pairs = tile_bytes(chunk, chunk);
    return 2 * tile + chunk * matrix_stride * 4 + pairs + static_cast<int>(sizeof(Factors)) +
           (for_backward ? 2 * tile : pairs);
  }
};
static_assert(tile_bytes(chunk, 64) >= tile_bytes(chunk, chunk));

__device__ float number_at(const TokenNumbers& x, int row, int token, int head) {
  const std::int64_t at = row * x.batch_stride + token * x.token_stride + head * x.head_stride;
  return x.is_float ? static_cast<const float*>(x.data)[at]
                    : __bfloat162float(static_cast<const bfloat16*>(x.data)[at]);
}

/// Sums over the first warp's lanes up to each.
__device__ float sum_up_to(float x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(capstan::kernels::all_lanes, x, distance);
    if (lane() >= distance) x += before;
  }
  return x;
}

/// By the first warp, two tokens a lane. Where a token begins a sequence its decay is of no account.
__device__ void token_factors(const DeltaCall& call, const Place& place, Factors& to) {
  const int l = lane();
  float sums[2], begun[2];
  float sum_before = 0;
  int begun_before = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = half * 32 + l, token = place.begin + i;
    const bool is_there = i < place.valid;
    const bool begins = is_there && call.begins != nullptr &&
                        call.begins[place.row * call.begin_strides[0] + token * call.begin_strides[1]];
    const unsigned all_begins = __ballot_sync(capstan::kernels::all_lanes, begins);
    begun[half] = static_cast<float>(begun_before + __popc(all_begins & (0xffffffffU >> (31 - l))));
    begun_before += __popc(all_begins);
    const float decay = is_there && !begins ? number_at(call.decay, place.row, token, place.head) : 0.0F;
    sums[half] = sum_before + sum_up_to(decay);
    sum_before = __shfl_sync(capstan::kernels::all_lanes, sums[half], 31);
    to.beta[i] = is_there ? number_at(call.beta, place.row, token, place.head) : 0.0F;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = half * 32 + l;
    to.sum[i] = sums[half];
    to.begun[i] = begun[half];
    to.start[i] = begun[half] == 0 ? expf(sums[half]) : 0.0F;
    to.end[i] = begun[half] == static_cast<float>(begun_before) ? expf(sum_before - sums[half]) : 0.0F;
  }
}

/// The rows of a matrix [16, 16] on the diagonal become those of (1 + A)^-1, by half a warp: a column a lane.
__device__ void invert_diagonal(float* block, int column) {
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sum = i == column ? 1.0F : 0.0F;
#pragma unroll
    for (int j = 0; j < i; ++j) sum -= block[i * matrix_stride + j] * x[j];
    x[i] = sum;
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16; ++i) block[i * matrix_stride + column] = x[i];
}

/// The sum over `depth` of left[l] · right[l][four columns].
__device__ float4 four_sums(const float* left, const float* right, int depth) {
  float4 sum{0, 0, 0, 0};
  for (int l = 0; l < depth; ++l) {
    const float by = left[l];
    const float4 four = *reinterpret_cast<const float4*>(right + l * matrix_stride);
    sum.x += by * four.x;
    sum.y += by * four.y;
    sum.z += by * four.z;
    sum.w += by * four.w;
  }
  return sum;
}

/// (1 + A)^-1 in A's place, A below the diagonal and 0 elsewhere. With its rows before known, sixteen rows more are
/// -D A T: D the inverse on the diagonal, A what is left of it, T those rows. All threads call it.
__device__ void invert(float* a) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < chunk) invert_diagonal(a + thread / 16 * 16 * (matrix_stride + 1), thread % 16);
  __syncthreads();
  const int row = thread % 16, column = thread / 16 * 4;
  for (int first = 16; first < chunk; first += 16) {
    const bool has_work = column < first;
    float* const mine = a + (first + row) * matrix_stride;
    float4 sum{0, 0, 0, 0};
    const int begin = column / 16 * 16;  // T is zero above its diagonal
    if (has_work) sum = four_sums(mine + begin, a + begin * matrix_stride + column, first - begin);
    __syncthreads();
    if (has_work) *reinterpret_cast<float4*>(mine + column) = sum;
    __syncthreads();
    if (has_work) sum = four_sums(mine + first, a + first * matrix_stride + column, row + 1);
    __syncthreads();
    if (has_work) *reinterpret_cast<float4*>(mine + column) = float4{-sum.x, -sum.y, -sum.z, -sum.w};
    __syncthreads();
  }
}

template <int dim>
__device__ void matrix_of_chunk(const Room<dim>& room) {
  const PairPart part;
  const Factors& f = *room.factors;
  float kk[4][4] = {};
  product<dim, Lies::as_it_is, Lies::transposed>(kk, room.k, part.row, room.k, part.column);
  each_pair(kk, part.row, part.column, [&](float x, float y, int, int i, int j) {
    const float by = f.beta[i] * f.inverse_k[i];
    float* const to = room.a + i * matrix_stride + j;
    to[0] = i > j ? by * f.inverse_k[j] * x * f.between(i, j) : 0.0F;
    to[1] = i > j + 1 ? by * f.inverse_k[j + 1] * y * f.between(i, j + 1) : 0.0F;
  });
}

/// [chunk, dim] = left · right, rounded, to the block's part of `to`.
template <int dim, Lies left_lies>
__device__ void store_product(void* to, const Place& place, Tile<chunk> left, Tile<dim> right) {
  const int row = warp_index() % 4 * 16, column = warp_index() / 4 * (dim / 2);
  float sums[dim / 16][4] = {};
  product<chunk, left_lies, Lies::as_it_is>(sums, left, row, right, column);
  bfloat16* const out = static_cast<bfloat16*>(to) + place.index * chunk * dim;
  each_pair(sums, row, column, [&](float x, float y, int, int i, int j) { store_pair(out + i * dim + j, x, y); });
}

/// The inverse's columns by what values and keys are multiplied with, rounded; for backward itself too.
template <int dim>
__device__ void split_inverse(const DeltaCall& call, const Place& place, const Room<dim>& room, bool for_backward) {
  const Factors& f = *room.factors;
  bfloat16* const kept = static_cast<bfloat16*>(call.inverse) + place.index * chunk * chunk;
  for (int at = static_cast<int>(threadIdx.x) * 2; at < chunk * chunk; at += threads * 2) {
    const int i = at / chunk, j = at % chunk;
    const float x = room.a[i * matrix_stride + j], y = room.a[i * matrix_stride + j + 1];
    const float by = f.beta[j], next = f.beta[j + 1];
    store_pair(room.of_values.at(i, j), x * by, y * next);
    store_pair(room.of_keys.at(i, j), x * by * f.start[j] * f.inverse_k[j],
               y * next * f.start[j + 1] * f.inverse_k[j + 1]);
    if (for_backward) store_pair(kept + at, x, y);
  }
}

template <int dim, bool for_backward>
__global__ void __launch_bounds__(threads) prepare(const __grid_constant__ DeltaCall call) {
  extern __shared__ __align__(16) char memory[];
  const Room<dim> room(memory);
  const Place place(call, blockIdx.x);
  const int keys = place.key_head(call);
  load<chunk>(room.k, place.of(call.k, keys), call.k.token_stride, place.valid);
  load<chunk>(room.v, place.of(call.v, place.head), call.v.token_stride, place.valid);
  if constexpr (for_backward) {
    load<chunk>(room.q, place.of(call.q, keys), call.q.token_stride, place.valid);
    load<chunk>(room.gradient, place.of(call.gradient, place.head), call.gradient.token_stride, place.valid);
  }
  __pipeline_commit();
  if (warp_index() == 0) token_factors(call, place, *room.factors);
  arrive();
  inverse_lengths(room.factors->inverse_k, room.k, 1.0F);
  if constexpr (for_backward) inverse_lengths(room.factors->inverse_q, room.q, rsqrtf(static_cast<float>(dim)));
  __syncthreads();
  matrix_of_chunk(room);
  if constexpr (for_backward) results_of_pairs(room.q, room.k, *room.factors, room.p);
  __syncthreads();
  if constexpr (for_backward) store_product<dim, Lies::transposed>(call.own, place, room.p, room.gradient);
  invert(room.a);
  split_inverse(call, place, room, for_backward);
  __syncthreads();
  store_product<dim, Lies::as_it_is>(call.u, place, room.of_values, room.v);
  store_product<dim, Lies::as_it_is>(call.w, place, room.of_keys, room.k);
  const float* const factors = reinterpret_cast<const float*>(room.factors);
  float* const to = call.factors + place.index * delta_factors * chunk;
  for (int i = static_cast<int>(threadIdx.x); i < delta_factors * chunk; i += threads) {
    const bool is_made = for_backward || i / chunk != 4;  // the lengths of q are found where q is read
    to[i] = is_made ? factors[i] : 0.0F;
  }
}

template <int dim>
void run(const DeltaCall& call, bool for_backward, CUstream_st* stream) {
  const int bytes = Room<dim>::bytes(for_backward);
  run_blocks(for_backward ? prepare<dim, true> : prepare<dim, false>, blocks_of(call), bytes, call, stream);
}

}  // namespace

void delta_prepare(const DeltaCall& call, bool for_backward, CUstream_st* stream) {
  if (call.dim == 64) {
    run<64>(call, for_backward, stream);
  } else {
    run<128>(call, for_backward, stream);
  }
}

}  // namespace qwen3_5
