#include <capstan/kernels/floats.cuh>

#include "kernels.h"

namespace bloom {
namespace {

using capstan::kernels::blocks_for;
using capstan::kernels::Float;
using capstan::kernels::Heads;
using capstan::kernels::is_aligned;
using capstan::kernels::Packed;

constexpr int threads = 128;

/// Column 0, 1 or 2 of a key: what of `rest` the columns before it have not said, rounded.
template <class T, class Number>
__device__ T part_of(Number rest, int column) {
  T part = Float<T>::store(rest);
  for (int i = 0; i < column; ++i) {
    rest -= static_cast<Number>(Float<T>::load(part));
    part = Float<T>::store(rest);
  }
  return part;
}

/// A thread block a token: packs of q and k of all heads. A pack is of a head's numbers or of its bias.
template <class T, int width>
__global__ void widen(WidenCall call) {
  using Number = typename Float<T>::Number;
  using Pack = Packed<T, width>;
  const T* const fused = static_cast<const T*>(call.fused);
  const int packs = call.wide / width;
  for (std::int64_t token = blockIdx.x; token < call.batch * call.length; token += gridDim.x) {
    const std::int64_t row = token / call.length, place = token % call.length;
    const auto position = static_cast<Number>(
        call.positions[row * call.position_strides[0] + place * call.position_strides[1]] - (call.length - 1));
    for (int i = static_cast<int>(threadIdx.x); i < call.heads * 2 * packs; i += threads) {
      const int head = i / (2 * packs), which = i / packs % 2, column = i % packs * width;
      const std::int64_t at = token * call.heads + head;
      Pack pack;
      if (column < call.dim) {
        pack = *reinterpret_cast<const Pack*>(fused + (at * 3 + which) * call.dim + column);
      } else {
        const Number bias = static_cast<const Number*>(call.slopes)[head] * position / static_cast<Number>(call.scale);
#pragma unroll
        for (int j = 0; j < width; ++j) {
          const int extra = column + j - call.dim;
          if (extra >= 3) {
            pack.value[j] = Float<T>::store(Number{0});
          } else {
            pack.value[j] = which == 0 ? Float<T>::store(Number{1}) : part_of<T>(bias, extra);
          }
        }
      }
      T* const to = static_cast<T*>(which == 0 ? call.q : call.k) + at * call.wide + column;
      *reinterpret_cast<Pack*>(to) = pack;
    }
  }
}

template <class T, int width>
__global__ void join(const __grid_constant__ JoinCall call) {
  using Pack = Packed<T, width>;
  T* const fused = static_cast<T*>(call.fused);
  const int packs = call.dim / width;
  for (std::int64_t token = blockIdx.x; token < call.batch * call.length; token += gridDim.x) {
    const std::int64_t row = token / call.length, place = token % call.length;
    for (int i = static_cast<int>(threadIdx.x); i < call.heads * 3 * packs; i += threads) {
      const int head = i / (3 * packs), which = i / packs % 3, column = i % packs * width;
      const Heads& part = call.parts[which];
      const T* const from = static_cast<const T*>(part.data) + part.offset(row, place, head) + column;
      T* const to = fused + ((token * call.heads + head) * 3 + which) * call.dim + column;
      *reinterpret_cast<Pack*>(to) = *reinterpret_cast<const Pack*>(from);
    }
  }
}

}  // namespace

void widen_heads(const WidenCall& call, CUstream_st* stream) {
  capstan::kernels::with_pack(call.type, call.dim, {call.fused, call.q, call.k},
                              [&]<class T, int width>(Packed<T, width>, std::int64_t) {
                                widen<T, width><<<blocks_for(call.batch * call.length, 1), threads, 0, stream>>>(call);
                              });
}

void join_heads(const JoinCall& call, CUstream_st* stream) {
  const unsigned blocks = blocks_for(call.batch * call.length, 1);
  capstan::kernels::with_type(call.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);
    bool fits = call.dim % wide == 0 && is_aligned(call.fused);
    for (const Heads& part : call.parts) fits = fits && part.fits(part.data, wide, sizeof(T));
    const auto kernel = fits ? join<T, wide> : join<T, 1>;
    kernel<<<blocks, threads, 0, stream>>>(call);
  });
}

}  // namespace bloom
