// Gradients of queries and keys, from those of unit vectors by value head.
#include "delta_tiles.cuh"

namespace qwen3_5 {
namespace {

using namespace tiles;

/// The sum over a key head's values, through the vector's unit length. A warp a vector.
template <int dim>
__device__ void unit_gradient(const DeltaCall& call, const bfloat16* x, bfloat16* to, const float* of_unit,
                              float scale) {
  constexpr int each = dim / 32;
  const int at = lane() * each, values = call.value_heads / call.key_heads;
  float number[each], sum[each] = {};
  float squares = 0, along = 0;
#pragma unroll
  for (int i = 0; i < each; i += 2) {
    const float2 two = load_pair(x + at + i);
    number[i] = two.x;
    number[i + 1] = two.y;
    squares += two.x * two.x + two.y * two.y;
    for (int r = 0; r < values; ++r) {
      const float2 part =
          *reinterpret_cast<const float2*>(of_unit + std::int64_t{r} * call.chunks * 2 * chunk * dim + at + i);
      sum[i] += part.x;
      sum[i + 1] += part.y;
    }
    along += two.x * sum[i] + two.y * sum[i + 1];
  }
  const float inverse = rsqrtf(capstan::kernels::sum_of_lanes(squares) + static_cast<float>(delta_epsilon));
  along = capstan::kernels::sum_of_lanes(along) * inverse * inverse;
#pragma unroll
  for (int i = 0; i < each; i += 2) {
    const float by = inverse * scale;
    store_pair(to + at + i, by * (sum[i] - number[i] * along), by * (sum[i + 1] - number[i + 1] * along));
  }
}

template <int dim>
__global__ void __launch_bounds__(threads) units(const __grid_constant__ DeltaCall call) {
  const std::int64_t vector = std::int64_t{blockIdx.x} * warp_count + warp_index();
  if (vector >= std::int64_t{call.batch} * call.length * call.key_heads) return;
  const int head = static_cast<int>(vector % call.key_heads);
  const std::int64_t token = vector / call.key_heads;
  const std::int64_t row = token / call.length, place = token % call.length;
  const std::int64_t value_head = row * call.value_heads + head * (call.value_heads / call.key_heads);
  const float* const of_q =
      call.of_units + ((value_head * call.chunks + place / chunk) * 2 * chunk + place % chunk) * dim;
  const auto at = [&](const capstan::kernels::Heads& x) {
    return static_cast<const bfloat16*>(x.data) + x.offset(row, place, head);
  };
  const std::int64_t to = vector * dim;
  unit_gradient<dim>(call, at(call.q), static_cast<bfloat16*>(call.of_q) + to, of_q, rsqrtf(static_cast<float>(dim)));
  unit_gradient<dim>(call, at(call.k), static_cast<bfloat16*>(call.of_k) + to, of_q + chunk * dim, 1.0F);
}

}  // namespace

void delta_units(const DeltaCall& call, CUstream_st* stream) {
  const std::int64_t vectors = std::int64_t{call.batch} * call.length * call.key_heads;
  const auto blocks = static_cast<unsigned>(capstan::kernels::parts_of(vectors, warp_count));
  run_blocks(call.dim == 128 ? units<128> : units<64>, blocks, 0, call, stream);
}

}  // namespace qwen3_5
