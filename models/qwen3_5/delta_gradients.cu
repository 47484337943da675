// Gradients of a chunk's values, decays and beta, and of its unit queries and keys by value head. With M = v - k_start
// S, written = (1 + A)^-1 (beta M), out = q_start S + p written, and the state after it through S + k_end^T written, as
// backward_of() of gated_delta_rule.cc has it.
#include "delta_tiles.cuh"

namespace qwen3_5 {
namespace {

using namespace tiles;

constexpr int piece = 32;  // columns of keys that are computed at once

/// Three tiles stay; what else is read takes turns in the rest.
template <int dim>
struct Room {
  Tile<dim> gradient, written, rows;  // `rows`: the gradient of beta M
  Tile<chunk> inverse;                // first
  Tile<dim> of_written;
  Tile<dim> q, k;            // then
  Tile<chunk> of_qk, of_kk;  // and last
  Tile<dim> state, state_after;
  Tile<piece> q_piece, k_piece;
  Factors* factors;
  float* columns;  // [4, chunk]: sums of columns, by the warps' rows

  /// [2, 2, chunk] and [2, warp_count], when all else has been read.
  __device__ float* parts() const { return reinterpret_cast<float*>(of_qk.data); }

  static constexpr int pairs = tile_bytes(chunk, chunk), tokens = tile_bytes(chunk, dim);
  static constexpr int first = pairs + tokens, then = 2 * tokens;
  static constexpr int last = 2 * pairs + 2 * tile_bytes(piece, dim) + 2 * tile_bytes(chunk, piece);
  static constexpr int most = last > then ? (last > first ? last : first) : (then > first ? then : first);
  static constexpr int bytes = 3 * tokens + static_cast<int>(sizeof(Factors)) + 4 * chunk * 4 + most;

  __device__ explicit Room(char* memory) {
    const auto at = [&](int offset) { return reinterpret_cast<bfloat16*>(memory + offset); };
    gradient.data = at(0);
    written.data = at(tokens);
    rows.data = at(2 * tokens);
    factors = reinterpret_cast<Factors*>(at(3 * tokens));
    columns = reinterpret_cast<float*>(at(3 * tokens + static_cast<int>(sizeof(Factors))));
    memory += bytes - most;
    inverse.data = of_qk.data = q.data = at(0);
    of_written.data = of_kk.data = at(pairs);
    k.data = at(tokens);
    state.data = at(2 * pairs);
    state_after.data = at(2 * pairs + tile_bytes(piece, dim));
    q_piece.data = at(2 * pairs + 2 * tile_bytes(piece, dim));
    k_piece.data = at(2 * pairs + 2 * tile_bytes(piece, dim) + tile_bytes(chunk, piece));
  }
};

/// A thread's parts of its two rows' sums, and of the chunk's.
struct Sums {
  float decay[2] = {}, beta[2] = {};
  float ends = 0, states = 0;
};

template <int dim>
__device__ void gradient_of_values(const DeltaCall& call, const Place& place, const Room<dim>& room, Sums& to) {
  const int row = warp_index() % 4 * 16, column = warp_index() / 4 * (dim / 2);
  float sums[dim / 16][4] = {};
  product<chunk, Lies::transposed, Lies::as_it_is>(sums, room.inverse, row, room.of_written, column);
  const bfloat16* const v = place.of(call.v, place.head);
  bfloat16* const of_v = static_cast<bfloat16*>(call.of_v) +
                         ((std::int64_t{place.row} * call.length + place.begin) * call.value_heads + place.head) * dim;
  each_pair(sums, row, column, [&](float x, float y, int half, int i, int j) {
    store_pair(room.rows.at(i, j), x, y);
    if (i >= place.valid) return;
    const float2 value = load_pair(v + i * call.v.token_stride + j);
    to.beta[half] += x * value.x + y * value.y;
    const float beta = room.factors->beta[i];
    store_pair(of_v + std::int64_t{i} * call.value_heads * dim + j, x * beta, y * beta);
  });
}

/// Products of all pairs of tokens, of a warp's rows and columns.
struct Pairs {
  float of_p[4][4] = {}, of_a[4][4] = {}, qk[4][4] = {}, kk[4][4] = {};
  int row = warp_index() % 4 * 16, column = warp_index() / 4 * 32;
};

/// What a pair's gradients are: of the products of unit vectors, by the vectors' inverse lengths, in the place of of_p
/// and of_a; sums of what both exponents get.
__device__ void gradients_of_pairs(Pairs& pairs, const Factors& f, float (&columns)[8], Sums& to) {
  const int l = lane();
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = pairs.row + l / 4 + e / 2 * 8, j = pairs.column + n * 8 + l % 4 * 2 + e % 2;
      const float between = i >= j ? f.between(i, j) : 0.0F, below = i > j ? between : 0.0F;
      const float by_qk = f.inverse_q[i] * f.inverse_k[j], by_kk = f.inverse_k[i] * f.inverse_k[j];
      const float of_a = -pairs.of_a[n][e] * below * by_kk * pairs.kk[n][e];  // of the pair's product, by itself
      const float of_qk = pairs.of_p[n][e] * between * by_qk, pair = of_qk * pairs.qk[n][e] + of_a * f.beta[i];
      to.beta[e / 2] += of_a;
      to.decay[e / 2] += pair;
      columns[n * 2 + e % 2] += pair;
      pairs.of_p[n][e] = of_qk;
      pairs.of_a[n][e] = -pairs.of_a[n][e] * below * by_kk * f.beta[i];
    }
  }
}

template <int dim>
__device__ void gradients_of_products(const Room<dim>& room, Sums& to) {
  Pairs pairs;
  product<dim, Lies::as_it_is, Lies::transposed>(pairs.of_p, room.gradient, pairs.row, room.written, pairs.column);
  product<dim, Lies::as_it_is, Lies::transposed>(pairs.of_a, room.rows, pairs.row, room.written, pairs.column);
  product<dim, Lies::as_it_is, Lies::transposed>(pairs.qk, room.q, pairs.row, room.k, pairs.column);
  product<dim, Lies::as_it_is, Lies::transposed>(pairs.kk, room.k, pairs.row, room.k, pairs.column);
  float columns[8] = {};
  gradients_of_pairs(pairs, *room.factors, columns, to);
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    for (int distance = 4; distance < 32; distance *= 2)
      columns[c] += __shfl_xor_sync(capstan::kernels::all_lanes, columns[c], distance);
    if (lane() < 4) room.columns[warp_index() % 4 * chunk + pairs.column + c / 2 * 8 + lane() * 2 + c % 2] = columns[c];
  }
  __syncthreads();  // q and k have been read
  each_pair(pairs.of_p, pairs.row, pairs.column,
            [&](float x, float y, int, int i, int j) { store_pair(room.of_qk.at(i, j), x, y); });
  each_pair(pairs.of_a, pairs.row, pairs.column,
            [&](float x, float y, int, int i, int j) { store_pair(room.of_kk.at(i, j), x, y); });
}

template <int dim>
__device__ void fetch_piece(const DeltaCall& call, const Place& place, const Room<dim>& room, int begin) {
  const int keys = place.key_head(call);
  const std::int64_t states = place.index * dim * dim + begin * dim;
  load<piece>(room.state, static_cast<const bfloat16*>(call.states) + states, dim);
  load<piece>(room.state_after, static_cast<const bfloat16*>(call.states_after) + states, dim);
  load<chunk>(room.q_piece, place.of(call.q, keys) + begin, call.q.token_stride, place.valid);
  load<chunk>(room.k_piece, place.of(call.k, keys) + begin, call.k.token_stride, place.valid);
  __pipeline_commit();
  arrive();
}

/// What queries and keys get through states, and through pairs, at a warp's rows and columns of a piece.
struct PieceSums {
  float through_start[2][4] = {}, through_rows[2][4] = {}, through_end[2][4] = {};
  float of_q[2][4] = {}, of_k[2][4] = {};
  int row = warp_index() % 4 * 16, column = warp_index() / 4 * 16;
};

/// Into `of_q` and `of_k`, the gradients of unit vectors; and what they are to decays and beta.
template <int dim>
__device__ void join(PieceSums& piece_sums, const Room<dim>& room, Sums& to) {
  const Factors& f = *room.factors;
  const int l = lane();
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int half = e / 2, i = piece_sums.row + l / 4 + half * 8, j = piece_sums.column + n * 8 + l % 4 * 2 + e % 2;
      const float q = __bfloat162float(*room.q_piece.at(i, j)) * f.inverse_q[i];
      const float k = __bfloat162float(*room.k_piece.at(i, j)) * f.inverse_k[i];
      const float of_q_start = f.start[i] * piece_sums.through_start[n][e];
      const float of_key = f.start[i] * piece_sums.through_rows[n][e];  // by -beta
      const float of_k_end = f.end[i] * piece_sums.through_end[n][e];
      piece_sums.of_q[n][e] = piece_sums.of_q[n][e] / f.inverse_q[i] + of_q_start;
      piece_sums.of_k[n][e] = piece_sums.of_k[n][e] / f.inverse_k[i] - f.beta[i] * of_key + of_k_end;
      to.decay[half] += of_q_start * q - (f.beta[i] * of_key + of_k_end) * k;
      to.beta[half] -= of_key * k;
      to.ends += of_k_end * k;
    }
  }
}

template <int dim>
__device__ void gradients_of_piece(const DeltaCall& call, const Place& place, const Room<dim>& room, int begin,
                                   Sums& to) {
  constexpr auto as_it_is = Lies::as_it_is, transposed = Lies::transposed;
  PieceSums s;
  product<dim, as_it_is, transposed>(s.through_start, room.gradient, s.row, room.state, s.column);
  product<dim, as_it_is, transposed>(s.through_rows, room.rows, s.row, room.state, s.column);
  product<dim, as_it_is, transposed>(s.through_end, room.written, s.row, room.state_after, s.column);
  product<chunk, as_it_is, as_it_is>(s.of_q, room.of_qk, s.row, room.k_piece, s.column);
  product<chunk, transposed, as_it_is>(s.of_k, room.of_qk, s.row, room.q_piece, s.column);
  product<chunk, as_it_is, as_it_is>(s.of_k, room.of_kk, s.row, room.k_piece, s.column);
  product<chunk, transposed, as_it_is>(s.of_k, room.of_kk, s.row, room.k_piece, s.column);
  join(s, room, to);
  float* const of_q = call.of_units + place.index * 2 * chunk * dim + begin;
  const auto store = [](float* to_units) {
    return [=](float x, float y, int, int i, int j) {
      *reinterpret_cast<float2*>(to_units + i * dim + j) = float2{x, y};
    };
  };
  each_pair(s.of_q, s.row, s.column, store(of_q));
  each_pair(s.of_k, s.row, s.column, store(of_q + chunk * dim));
  for (int i = static_cast<int>(threadIdx.x) * 2; i < piece * dim; i += threads * 2) {
    const float2 a = load_pair(room.state.at(i / dim, i % dim)), b = load_pair(room.state_after.at(i / dim, i % dim));
    to.states += a.x * b.x + a.y * b.y;
  }
}

/// All threads' parts, where the first warp reads them.
__device__ void collect(const Sums& sums, float* parts) {
  const int column = warp_index() / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float decay = sum_of_row(sums.decay[half]), beta = sum_of_row(sums.beta[half]);
    const int i = warp_index() % 4 * 16 + lane() / 4 + half * 8;
    if (lane() % 4 == 0) {
      parts[column * chunk + i] = decay;
      parts[(2 + column) * chunk + i] = beta;
    }
  }
  const float ends = capstan::kernels::sum_of_lanes(sums.ends), states = capstan::kernels::sum_of_lanes(sums.states);
  if (lane() == 0) {
    parts[4 * chunk + warp_index()] = ends;
    parts[4 * chunk + warp_count + warp_index()] = states;
  }
}

__device__ float sum_from(float x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float after = __shfl_down_sync(capstan::kernels::all_lanes, x, distance);
    if (lane() + distance < 32) x += after;
  }
  return x;
}

/// By the first warp: a token's decay is in the sums of all from it on. At a token that begins a sequence it is not.
__device__ void finish(const DeltaCall& call, const Place& place, const Factors& f, const float* columns,
                       const float* parts) {
  float ends = 0, states = 0;
  for (int w = 0; w < warp_count; ++w) {
    ends += parts[4 * chunk + w];
    states += parts[4 * chunk + warp_count + w];
  }
  float after = 0;
#pragma unroll
  for (int half = 1; half >= 0; --half) {
    const int i = half * 32 + lane();
    float sum =
        parts[i] + parts[chunk + i] - columns[i] - columns[chunk + i] - columns[2 * chunk + i] - columns[3 * chunk + i];
    if (i == chunk - 1) sum += ends + f.through() * states;
    const float decay = sum_from(sum) + after;
    after = __shfl_sync(capstan::kernels::all_lanes, decay, 0);
    if (i >= place.valid) continue;
    const std::int64_t at = (std::int64_t{place.row} * call.length + place.begin + i) * call.value_heads + place.head;
    const bool begins = f.begun[i] != (i > 0 ? f.begun[i - 1] : 0.0F);
    call.of_decay[at] = begins ? 0.0F : decay;
    const float beta = parts[2 * chunk + i] + parts[3 * chunk + i];
    if (call.beta.is_float) {
      static_cast<float*>(call.of_beta)[at] = beta;
    } else {
      static_cast<bfloat16*>(call.of_beta)[at] = __float2bfloat16_rn(beta);
    }
  }
}

template <int dim>
__global__ void __launch_bounds__(threads, 2) gradients(const __grid_constant__ DeltaCall call) {
  extern __shared__ __align__(16) char memory[];
  const Room<dim> room(memory);
  const Place place(call, blockIdx.x);
  const std::int64_t tokens = place.index * chunk * dim;
  const int keys = place.key_head(call);
  load<chunk>(room.inverse, static_cast<const bfloat16*>(call.inverse) + place.index * chunk * chunk, chunk);
  load<chunk>(room.of_written, static_cast<const bfloat16*>(call.of_written) + tokens, dim);
  load_floats(reinterpret_cast<float*>(room.factors), call.factors + place.index * delta_factors * chunk,
              delta_factors * chunk);
  __pipeline_commit();
  load<chunk>(room.gradient, place.of(call.gradient, place.head), call.gradient.token_stride, place.valid);
  load<chunk>(room.written, static_cast<const bfloat16*>(call.written) + tokens, dim);
  __pipeline_commit();
  arrive(1);
  Sums sums;
  gradient_of_values(call, place, room, sums);
  __syncthreads();
  load<chunk>(room.q, place.of(call.q, keys), call.q.token_stride, place.valid);
  load<chunk>(room.k, place.of(call.k, keys), call.k.token_stride, place.valid);
  __pipeline_commit();
  arrive();
  gradients_of_products(room, sums);
#pragma unroll 1
  for (int begin = 0; begin < dim; begin += piece) {
    fetch_piece(call, place, room, begin);
    gradients_of_piece(call, place, room, begin, sums);
    __syncthreads();
  }
  collect(sums, room.parts());
  __syncthreads();
  if (warp_index() == 0) finish(call, place, *room.factors, room.columns, room.parts());
}

}  // namespace

void delta_gradients(const DeltaCall& call, CUstream_st* stream) {
  const bool is_wide = call.dim == 128;
  run_blocks(is_wide ? gradients<128> : gradients<64>, blocks_of(call), is_wide ? Room<128>::bytes : Room<64>::bytes,
             call, stream);
}

int delta_shared_bytes() { return Room<128>::bytes; }

}  // namespace qwen3_5
