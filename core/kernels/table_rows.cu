#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 128;

/// The first place from `begin` on whose id is another one.
__device__ std::int64_t end_of(const std::int64_t* ids, std::int64_t begin, std::int64_t count) {
  const std::int64_t id = ids[begin];
  std::int64_t low = begin + 1, high = count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (ids[middle] == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// A thread block a sorted id; the first of equal ones adds all their rows.
template <class To, class From, int width>
__global__ void add_sorted_rows(RowsCall call) {
  using Number = typename Float<To>::Number;
  const std::int64_t packs = call.columns / width;
  for (std::int64_t at = blockIdx.x; at < call.count; at += gridDim.x) {
    const std::int64_t row = call.ids[at] - call.first;
    if (row < 0 || row >= call.rows || (at > 0 && call.ids[at - 1] == call.ids[at])) continue;
    const std::int64_t end = end_of(call.ids, at, call.count);
    for (std::int64_t c = threadIdx.x; c < packs; c += threads) {
      auto* const to = static_cast<Packed<To, width>*>(call.to) + row * packs + c;
      const auto* const from = static_cast<const Packed<From, width>*>(call.from);
      Packed<To, width> pack = *to;
      Number sum[width];
#pragma unroll
      for (int j = 0; j < width; ++j) sum[j] = Float<To>::load(pack.value[j]);
#pragma unroll 8
      for (std::int64_t i = at; i < end; ++i) {
        const Packed<From, width> part = from[call.order[i] * packs + c];
#pragma unroll
        for (int j = 0; j < width; ++j) sum[j] += static_cast<Number>(Float<From>::load(part.value[j]));
      }
#pragma unroll
      for (int j = 0; j < width; ++j) pack.value[j] = Float<To>::store(sum[j]);
      *to = pack;
    }
  }
}

template <class To, class From>
void launch(const RowsCall& call, CUstream_st* stream) {
  constexpr int wide = 16 / sizeof(From);
  const bool fits = call.columns % wide == 0 && is_aligned(call.to, sizeof(Packed<To, wide>)) && is_aligned(call.from);
  const auto kernel = fits ? add_sorted_rows<To, From, wide> : add_sorted_rows<To, From, 1>;
  kernel<<<blocks_for(call.count, 1), threads, 0, stream>>>(call);
}

}  // namespace

void add_table_rows(const RowsCall& call, CUstream_st* stream) {
  with_type(call.to_type, [&](auto to) {
    with_type(call.from_type, [&](auto from) { launch<decltype(to), decltype(from)>(call, stream); });
  });
}

}  // namespace capstan::kernels
