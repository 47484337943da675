#include "update.h"

#include <capstan/kernels/tensor_blocks.h>
#include <capstan/kernels/floats.cuh>
#include <capstan/kernels/warps.cuh>

namespace adam8bit {
namespace {

using capstan::kernels::Float;
using capstan::kernels::warp;

constexpr int warps = 4;
constexpr int threads = warp * warps;
constexpr int width = 4;                       // neighbours that a thread has at once
constexpr int packs = block / (warp * width);  // … and how often in a block
constexpr int each = width * packs;            // a thread's elements of a block

__device__ const Tables tables_there = tables;

template <class T>
using Pack = capstan::kernels::Packed<T, width>;

// Where a thread's elements of a block are: the first pack is beside its neighbours', the next a warp's packs further
// on.
struct Place {
  int lane;  // the thread's number in its warp
  int n;     // the block's elements

  __device__ int of(int pack) const { return (pack * warp + lane) * width; }
};

// Reads and writes a thread's elements: packs of whole blocks at whole addresses, or one by one.
template <class T, bool in_packs>
struct Access {
  static __device__ void read(T (&to)[each], const T* from, Place at) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      Pack<T> pack{};
      if constexpr (in_packs) {
        pack = *reinterpret_cast<const Pack<T>*>(from + at.of(p));
      } else {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          if (at.of(p) + i < at.n) pack.value[i] = from[at.of(p) + i];
        }
      }
#pragma unroll
      for (int i = 0; i < width; ++i) to[p * width + i] = pack.value[i];
    }
  }
  static __device__ void write(T* to, const T (&from)[each], Place at) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      Pack<T> pack;
#pragma unroll
      for (int i = 0; i < width; ++i) pack.value[i] = from[p * width + i];
      if constexpr (in_packs) {
        *reinterpret_cast<Pack<T>*>(to + at.of(p)) = pack;
      } else {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          if (at.of(p) + i < at.n) to[at.of(p) + i] = pack.value[i];
        }
      }
    }
  }
};

// The largest magnitude of a warp's elements, in all its threads.
__device__ float largest_of(const float (&values)[each]) {
  unsigned most = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) most = max(most, __float_as_uint(fabsf(values[i])));
  return __uint_as_float(capstan::kernels::largest_of_warp(most));
}

// One slice as the list has it, or a block of it.
template <class Master, class Grad, class Copy>
struct Slice {
  Master* master;
  const Grad* grad;
  std::uint8_t* codes;
  float* scales;
  std::uint8_t* square_codes;
  float* square_scales;
  Copy* copy;

  __device__ Slice from_block(std::int64_t i) const {
    const std::int64_t begin = i * block;
    return {master + begin,
            grad + begin,
            codes + begin,
            scales + i,
            square_codes + begin,
            square_scales + i,
            copy == nullptr ? nullptr : copy + begin};
  }
};

template <class Master, class Grad, class Copy>
__device__ Slice<Master, Grad, Copy> slice_of(const List& list, int i) {
  return {static_cast<Master*>(list.master[i]),
          static_cast<const Grad*>(list.grad[i]),
          list.codes[i],
          list.scales[i],
          list.square_codes[i],
          list.square_scales[i],
          static_cast<Copy*>(list.copy[i])};
}

// The decoded moments of a thread's elements.
struct Values {
  float average[each], square[each];
};

template <bool in_packs, class Master, class Grad, class Copy>
__device__ void step(const Numbers& by, const Values& moments, Master (&masters)[each],
                     const Slice<Master, Grad, Copy>& to, Place at) {
  using Number = typename Float<Master>::Number;
  Copy copies[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const Number master = Float<Master>::load(masters[i]);
    masters[i] = Float<Master>::store(stepped<Number>(by, master, moments.average[i], moments.square[i]));
    copies[i] = Float<Copy>::store(static_cast<float>(Float<Master>::load(masters[i])));
  }
  Access<Master, in_packs>::write(to.master, masters, at);
  if (to.copy != nullptr) Access<Copy, in_packs>::write(to.copy, copies, at);
}

template <bool in_packs, class Master, class Grad, class Copy>
__device__ void encode(const Tables& all, const Values& moments, const Slice<Master, Grad, Copy>& to, Place at) {
  const float scale = largest_of(moments.average), square_scale = largest_of(moments.square);
  const Inverse by = inverse_of(scale), square_by = inverse_of(square_scale);
  std::uint8_t average[each], square[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const float x = part_of(by, moments.average[i]), y = part_of(square_by, moments.square[i]);
    average[i] = static_cast<std::uint8_t>(signed_code(all, moments.average[i], x));
    square[i] = static_cast<std::uint8_t>(unsigned_code(all, y));
  }
  Access<std::uint8_t, in_packs>::write(to.codes, average, at);
  Access<std::uint8_t, in_packs>::write(to.square_codes, square, at);
  if (at.lane == 0) {
    *to.scales = scale;
    *to.square_scales = square_scale;
  }
}

// A warp updates a block that has n elements.
template <bool in_packs, class Master, class Grad, class Copy>
__device__ void update_block(const Tables& all, const Numbers& by, const Slice<Master, Grad, Copy>& slice, int n) {
  const Place at{static_cast<int>(threadIdx.x) % warp, n};
  Grad grads[each];
  Master masters[each];
  std::uint8_t average_codes[each], square_codes[each];
  Access<Grad, in_packs>::read(grads, slice.grad, at);
  Access<std::uint8_t, in_packs>::read(average_codes, slice.codes, at);
  Access<std::uint8_t, in_packs>::read(square_codes, slice.square_codes, at);
  Access<Master, in_packs>::read(masters, slice.master, at);
  const float scale = *slice.scales, square_scale = *slice.square_scales;
  Values moments;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    moments.average[i] = times(all.signed_value[average_codes[i]], scale);
    moments.square[i] = times(all.without.value[square_codes[i]], square_scale);
    accumulate(by, static_cast<float>(Float<Grad>::load(grads[i])), moments.average[i], moments.square[i]);
    // What is beyond the end has no part in the scales.
    if (!in_packs && at.of(i / width) + i % width >= n) moments.average[i] = moments.square[i] = 0;
  }
  step<in_packs>(by, moments, masters, slice, at);
  encode<in_packs>(all, moments, slice, at);
}

template <class T>
__device__ bool is_whole(const T* pointer) {
  return capstan::kernels::is_aligned(pointer, sizeof(Pack<T>));
}

// Shared memory gets the tables, 16 bytes at a time.
__device__ void fetch(Tables& all) {
  static_assert(sizeof(Tables) % sizeof(uint4) == 0);
  const auto* from = reinterpret_cast<const uint4*>(&tables_there);
  auto* to = reinterpret_cast<uint4*>(&all);
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(sizeof(Tables) / sizeof(uint4)); i += threads)
    to[i] = from[i];
}

// How many thread blocks a multiprocessor has at once, so that all numbers stay in registers.
template <class Master>
constexpr int resident = sizeof(Master) <= sizeof(float) ? 5 : 4;

template <class Master, class Grad, class Copy>
__global__ void __launch_bounds__(threads, resident<Master>) update_tiles(const __grid_constant__ List list) {
  const OnDevice& at = list.progress;
  if (*at.skip == 1) return;
  __shared__ Tables all;
  __shared__ Numbers by;
  const int number = capstan::kernels::tensor_of(list.first_tile, list.count, blockIdx.x);
  fetch(all);
  if (threadIdx.x == 0) by = numbers(list.by, list.lr[number], list.weight_decay[number], *at.updates, *at.grad_scale);
  __syncthreads();
  const auto slice = slice_of<Master, Grad, Copy>(list, number);
  const bool whole = is_whole(slice.master) && is_whole(slice.grad) && is_whole(slice.codes) &&
                     is_whole(slice.square_codes) && is_whole(slice.copy);
  const std::int64_t first = (blockIdx.x - list.first_tile[number]) * (List::tile / block);
  for (int i = static_cast<int>(threadIdx.x) / warp; i < List::tile / block; i += warps) {
    const std::int64_t rest = list.numel[number] - (first + i) * block;
    if (rest <= 0) return;
    const auto here = slice.from_block(first + i);
    if (whole && rest >= block) {
      update_block<true>(all, by, here, block);
    } else {
      update_block<false>(all, by, here, static_cast<int>(rest < block ? rest : block));
    }
  }
}

}  // namespace

void update(const List& list, const Types& types, CUstream_st* stream) {
  const auto tiles = static_cast<unsigned>(list.first_tile[list.count]);
  if (tiles == 0) return;
  const auto launch = [&]<class Master, class Grad, class Copy>(Master, Grad, Copy) {
    update_tiles<Master, Grad, Copy><<<tiles, threads, 0, stream>>>(list);
  };
  const bool is_wide = types.gradient == FloatType::float32;
  switch (types.master) {
    case FloatType::float64:
      return launch(double{}, double{}, __nv_bfloat16{});
    case FloatType::bfloat16:
      return launch(__nv_bfloat16{}, __nv_bfloat16{}, __nv_bfloat16{});
    case FloatType::half:
      return launch(__half{}, __half{}, __half{});
    case FloatType::float32:
      if (types.copy == FloatType::half)
        return is_wide ? launch(float{}, float{}, __half{}) : launch(float{}, __half{}, __half{});
      return is_wide ? launch(float{}, float{}, __nv_bfloat16{}) : launch(float{}, __nv_bfloat16{}, __nv_bfloat16{});
  }
}

}  // namespace adam8bit
