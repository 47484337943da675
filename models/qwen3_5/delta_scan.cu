// The state's way from chunk to chunk, and its gradient's way back: a thread block has 32 columns of a value head's
// state, in registers; their bfloat16 in shared memory is what the tensor cores multiply.
#include "delta_tiles.cuh"

namespace qwen3_5 {
namespace {

using namespace tiles;

constexpr int slice = 32;  // columns of the state

/// What a warp has of a slice of the state [dim, slice]: 16 rows and all of its columns, or half of them.
template <int dim>
struct StatePart {
  static constexpr int row_parts = dim / 16, column_parts = warp_count / row_parts;
  static constexpr int tiles_n = slice / 8 / column_parts;
  int row = warp_index() % row_parts * 16, column = warp_index() / row_parts * (slice / column_parts);
  float sums[tiles_n][4] = {};

  template <class Body>
  __device__ void each(const Body& body) {
    each_pair(sums, row, column, [&](float& x, float& y, int, int i, int j) { body(x, y, i, j); });
  }
  __device__ void read(const float* from) {
    if (from == nullptr) return;
    each([&](float& x, float& y, int i, int j) {
      x = from[i * dim + j];
      y = from[i * dim + j + 1];
    });
  }
  __device__ void write(float* to) {
    each([&](float x, float y, int i, int j) { *reinterpret_cast<float2*>(to + i * dim + j) = float2{x, y}; });
  }
  __device__ void round(Tile<slice> to) {
    each([&](float x, float y, int i, int j) { store_pair(to.at(i, j), x, y); });
  }
  __device__ void scale(float by) {
#pragma unroll
    for (int n = 0; n < tiles_n; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[n][e] *= by;
    }
  }
};

/// A warp's rows and columns of a chunk's tokens by the slice.
struct TokenPart {
  int row = warp_index() % 4 * 16, column = warp_index() / 4 * 16;
};

/// A slice of [dim, dim] from shared memory.
template <int dim>
__device__ void store_slice(bfloat16* to, Tile<slice> from) {
  constexpr int packs = slice / pack;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < dim * packs; i += threads) {
    const int row = i / packs, column = i % packs * pack;
    *reinterpret_cast<uint4*>(to + row * dim + column) = *reinterpret_cast<const uint4*>(from.at(row, column));
  }
}

/// What a thread block has: columns [column, column + slice) of a value head's numbers.
template <int dim>
struct Slice {
  int head = static_cast<int>(blockIdx.y), row = static_cast<int>(blockIdx.z);
  int column = static_cast<int>(blockIdx.x) * slice;
  std::int64_t value_head;  // among those of all rows
  __device__ explicit Slice(const DeltaCall& call) : value_head(std::int64_t{row} * call.value_heads + head) {}
  __device__ Place place(const DeltaCall& call, int chunk_index) const {
    return Place(call, value_head * call.chunks + chunk_index);
  }
  __device__ std::int64_t of_state() const { return value_head * dim * dim + column; }
  __device__ std::int64_t of_chunk_state(const Place& place) const { return place.index * dim * dim + column; }
  __device__ std::int64_t of_tokens(const Place& place) const { return place.index * chunk * dim + column; }
};

__device__ const bfloat16* read_at(const void* data, std::int64_t offset) {
  return static_cast<const bfloat16*>(data) + offset;
}
__device__ bfloat16* write_at(void* data, std::int64_t offset) { return static_cast<bfloat16*>(data) + offset; }

__device__ void load_factors(Factors* to, const DeltaCall& call, const Place& place) {
  load_floats(reinterpret_cast<float*>(to), call.factors + place.index * delta_factors * chunk, delta_factors * chunk);
}

// Forward has two stages: one arrives while the other is computed with.
template <int dim>
struct Stage {
  Tile<dim> w, k;
  Tile<slice> u;
  Factors* factors;
  static constexpr int bytes =
      2 * tile_bytes(chunk, dim) + tile_bytes(chunk, slice) + static_cast<int>(sizeof(Factors));
  __device__ explicit Stage(char* memory) {
    w.data = reinterpret_cast<bfloat16*>(memory);
    k.data = reinterpret_cast<bfloat16*>(memory + tile_bytes(chunk, dim));
    u.data = reinterpret_cast<bfloat16*>(memory + 2 * tile_bytes(chunk, dim));
    factors = reinterpret_cast<Factors*>(memory + bytes - sizeof(Factors));
  }
  __device__ void fetch(const DeltaCall& call, const Slice<dim>& of, int chunk_index) const {
    if (chunk_index < call.chunks) {
      const Place place = of.place(call, chunk_index);
      load<chunk>(w, read_at(call.w, place.index * chunk * dim), dim);
      load<chunk>(k, place.of(call.k, place.key_head(call)), call.k.token_stride, place.valid);
      load<chunk>(u, read_at(call.u, of.of_tokens(place)), dim);
      load_factors(factors, call, place);
    }
    __pipeline_commit();
  }
};

/// What the chunk writes, to memory; and by what is left of it at the end, for the state.
template <int dim>
__device__ void write_chunk(bfloat16* to, const Stage<dim>& stage, Tile<slice> state, Tile<slice> left) {
  const TokenPart part;
  float read[2][4] = {};
  product<dim, Lies::as_it_is, Lies::as_it_is>(read, stage.w, part.row, state, part.column);
  each_pair(read, part.row, part.column, [&](float x, float y, int, int i, int j) {
    const float2 u = load_pair(stage.u.at(i, j));
    const float a = u.x - x, b = u.y - y, by = stage.factors->end[i] * stage.factors->inverse_k[i];
    store_pair(to + i * dim + j, a, b);
    store_pair(left.at(i, j), a * by, b * by);
  });
}

template <int dim>
constexpr int scan_bytes = 2 * Stage<dim>::bytes + tile_bytes(dim, slice) + tile_bytes(chunk, slice);

template <int dim>
__global__ void __launch_bounds__(threads) scan(const __grid_constant__ DeltaCall call) {
  extern __shared__ __align__(16) char memory[];
  const Slice<dim> of(call);
  Tile<slice> rounded, left;
  rounded.data = reinterpret_cast<bfloat16*>(memory + 2 * Stage<dim>::bytes);
  left.data = rounded.data + tile_bytes(dim, slice) / 2;
  StatePart<dim> state;
  state.read(call.first == nullptr ? nullptr : call.first + of.of_state());
  Stage<dim>(memory).fetch(call, of, 0);
  for (int i = 0; i < call.chunks; ++i) {
    const Place place = of.place(call, i);
    const Stage<dim> stage(memory + i % 2 * Stage<dim>::bytes), next(memory + (i + 1) % 2 * Stage<dim>::bytes);
    state.round(rounded);
    arrive();
    next.fetch(call, of, i + 1);  // all threads are done with the chunk before
    store_slice<dim>(write_at(call.states, of.of_chunk_state(place)), rounded);
    write_chunk(write_at(call.written, of.of_tokens(place)), stage, rounded, left);
    __syncthreads();
    state.scale(stage.factors->through());
    product<chunk, Lies::transposed, Lies::as_it_is>(state.sums, stage.k, state.row, left, state.column);
  }
  state.write(call.last + of.of_state());
}

// Backward: keys are read first, then queries and w; what has been read makes room for the next chunk's.
template <int dim>
struct BackRoom {
  Tile<dim> k, q, w;
  Tile<slice> own, gradient, rounded, written;
  Factors* factors;  // of two chunks
  static constexpr int bytes = 3 * tile_bytes(chunk, dim) + 3 * tile_bytes(chunk, slice) + tile_bytes(dim, slice) +
                               2 * static_cast<int>(sizeof(Factors));
  __device__ explicit BackRoom(char* memory) {
    constexpr int tile = tile_bytes(chunk, dim), narrow = tile_bytes(chunk, slice);
    const auto at = [&](int offset) { return reinterpret_cast<bfloat16*>(memory + offset); };
    k.data = at(0);
    q.data = at(tile);
    w.data = at(2 * tile);
    own.data = at(3 * tile);
    gradient.data = at(3 * tile + narrow);
    written.data = at(3 * tile + 2 * narrow);
    rounded.data = at(3 * tile + 3 * narrow);
    factors = reinterpret_cast<Factors*>(memory + bytes) - 2;
  }
  __device__ void fetch_first(const DeltaCall& call, const Slice<dim>& of, int chunk_index) const {
    if (chunk_index >= 0) {
      const Place place = of.place(call, chunk_index);
      load<chunk>(k, place.of(call.k, place.key_head(call)), call.k.token_stride, place.valid);
      load<chunk>(own, read_at(call.own, of.of_tokens(place)), dim);
      load_factors(factors + chunk_index % 2, call, place);
    }
    __pipeline_commit();
  }
  __device__ void fetch_second(const DeltaCall& call, const Slice<dim>& of, int chunk_index) const {
    if (chunk_index >= 0) {
      const Place place = of.place(call, chunk_index);
      load<chunk>(q, place.of(call.q, place.key_head(call)), call.q.token_stride, place.valid);
      load<chunk>(w, read_at(call.w, place.index * chunk * dim), dim);
      load<chunk>(gradient, place.of(call.gradient, place.head) + of.column, call.gradient.token_stride, place.valid);
    }
    __pipeline_commit();
  }
};

/// What the chunk's `written` gets, to memory; and its negative for the state.
template <int dim>
__device__ void write_back(bfloat16* to, const BackRoom<dim>& room, const Factors& f) {
  const TokenPart part;
  float read[2][4] = {};
  product<dim, Lies::as_it_is, Lies::as_it_is>(read, room.k, part.row, room.rounded, part.column);
  each_pair(read, part.row, part.column, [&](float x, float y, int, int i, int j) {
    const float2 own = load_pair(room.own.at(i, j));
    const float by = f.end[i] * f.inverse_k[i], a = own.x + x * by, b = own.y + y * by;
    store_pair(to + i * dim + j, a, b);
    store_pair(room.written.at(i, j), -a, -b);
  });
}

/// The pack of the gradient that this thread has copied, by what the first state's results are scaled with.
__device__ void scale_own_pack(Tile<slice> gradient, const Factors& f) {
  static_assert(chunk * slice / pack == threads);
  const int row = static_cast<int>(threadIdx.x) / (slice / pack);
  bfloat16* const at = gradient.at(row, static_cast<int>(threadIdx.x) % (slice / pack) * pack);
  const float by = f.start[row] * f.inverse_q[row];
#pragma unroll
  for (int i = 0; i < pack; i += 2) {
    const float2 two = load_pair(at + i);
    store_pair(at + i, two.x * by, two.y * by);
  }
}

template <int dim>
__global__ void __launch_bounds__(threads) scan_back(const __grid_constant__ DeltaCall call) {
  extern __shared__ __align__(16) char memory[];
  const Slice<dim> of(call);
  const BackRoom<dim> room(memory);
  StatePart<dim> state;  // its gradient
  state.read(call.of_last == nullptr ? nullptr : call.of_last + of.of_state());
  room.fetch_first(call, of, call.chunks - 1);
  room.fetch_second(call, of, call.chunks - 1);
  for (int i = call.chunks - 1; i >= 0; --i) {
    const Place place = of.place(call, i);
    const Factors& f = room.factors[i % 2];
    state.round(room.rounded);
    arrive(1);
    store_slice<dim>(write_at(call.states_after, of.of_chunk_state(place)), room.rounded);
    write_back(write_at(call.of_written, of.of_tokens(place)), room, f);
    __pipeline_wait_prior(0);
    scale_own_pack(room.gradient, f);
    __syncthreads();
    room.fetch_first(call, of, i - 1);  // all threads are done with the keys
    state.scale(f.through());
    product<chunk, Lies::transposed, Lies::as_it_is>(state.sums, room.q, state.row, room.gradient, state.column);
    product<chunk, Lies::transposed, Lies::as_it_is>(state.sums, room.w, state.row, room.written, state.column);
    __syncthreads();
    room.fetch_second(call, of, i - 1);
  }
  state.write(call.of_first + of.of_state());
}

dim3 grid_of(const DeltaCall& call) {
  return {static_cast<unsigned>(call.dim / slice), static_cast<unsigned>(call.value_heads),
          static_cast<unsigned>(call.batch)};
}

}  // namespace

void delta_scan(const DeltaCall& call, CUstream_st* stream) {
  const bool is_wide = call.dim == 128;
  run_blocks(is_wide ? scan<128> : scan<64>, grid_of(call), is_wide ? scan_bytes<128> : scan_bytes<64>, call, stream);
}

void delta_scan_back(const DeltaCall& call, CUstream_st* stream) {
  const bool is_wide = call.dim == 128;
  const int bytes = is_wide ? BackRoom<128>::bytes : BackRoom<64>::bytes;
  run_blocks(is_wide ? scan_back<128> : scan_back<64>, grid_of(call), bytes, call, stream);
}

}  // namespace qwen3_5
