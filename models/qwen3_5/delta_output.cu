// A chunk's results: what its queries read of its first state, and of what its tokens up to each have written.
#include "delta_tiles.cuh"

namespace qwen3_5 {
namespace {

using namespace tiles;

template <int dim>
struct Room {
  Tile<dim> q, k, written, state;
  Tile<chunk> p;
  Factors* factors;
  static constexpr int bytes =
      3 * tile_bytes(chunk, dim) + tile_bytes(dim, dim) + tile_bytes(chunk, chunk) + static_cast<int>(sizeof(Factors));
  __device__ explicit Room(char* memory) {
    bfloat16* at = reinterpret_cast<bfloat16*>(memory);
    for (Tile<dim>* tile : {&q, &k, &written}) {
      tile->data = at;
      at += tile_bytes(chunk, dim) / 2;
    }
    state.data = at;
    p.data = at + tile_bytes(dim, dim) / 2;
    factors = reinterpret_cast<Factors*>(p.data + tile_bytes(chunk, chunk) / 2);
  }
};

template <int dim>
__device__ void results(const DeltaCall& call, const Place& place, const Room<dim>& room) {
  const int row = warp_index() % 4 * 16, column = warp_index() / 4 * (dim / 2);
  const Factors& f = *room.factors;
  float sums[dim / 16][4] = {};
  product<dim, Lies::as_it_is, Lies::as_it_is>(sums, room.q, row, room.state, column);
  each_pair(sums, row, column, [&](float& x, float& y, int, int i, int) {
    const float by = f.start[i] * f.inverse_q[i];
    x *= by;
    y *= by;
  });
  product<chunk, Lies::as_it_is, Lies::as_it_is>(sums, room.p, row, room.written, column);
  bfloat16* const out = static_cast<bfloat16*>(call.out);
  each_pair(sums, row, column, [&](float x, float y, int, int i, int j) {
    const std::int64_t token = std::int64_t{place.row} * call.length + place.begin + i;
    if (i < place.valid) store_pair(out + (token * call.value_heads + place.head) * dim + j, x, y);
  });
}

template <int dim>
__global__ void __launch_bounds__(threads) output(const __grid_constant__ DeltaCall call) {
  extern __shared__ __align__(16) char memory[];
  const Room<dim> room(memory);
  const Place place(call, blockIdx.x);
  const int keys = place.key_head(call);
  load<chunk>(room.q, place.of(call.q, keys), call.q.token_stride, place.valid);
  load<chunk>(room.k, place.of(call.k, keys), call.k.token_stride, place.valid);
  load_floats(reinterpret_cast<float*>(room.factors), call.factors + place.index * delta_factors * chunk,
              delta_factors * chunk);
  __pipeline_commit();
  load<chunk>(room.written, static_cast<const bfloat16*>(call.written) + place.index * chunk * dim, dim);
  load<dim>(room.state, static_cast<const bfloat16*>(call.states) + place.index * dim * dim, dim);
  __pipeline_commit();
  arrive(1);
  inverse_lengths(room.factors->inverse_q, room.q, rsqrtf(static_cast<float>(dim)));
  __syncthreads();
  results_of_pairs(room.q, room.k, *room.factors, room.p);
  arrive();
  results(call, place, room);
}

}  // namespace

void delta_output(const DeltaCall& call, CUstream_st* stream) {
  const bool is_wide = call.dim == 128;
  run_blocks(is_wide ? output<128> : output<64>, blocks_of(call), is_wide ? Room<128>::bytes : Room<64>::bytes, call,
             stream);
}

}  // namespace qwen3_5
