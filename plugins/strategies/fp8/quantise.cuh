#pragma once
// Numbers in 8 bits on the device: scales, and what 16 bytes of a matrix become. Bit for bit as quantise.cc.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <capstan/kernels/warps.cuh>

#include <type_traits>

#include "kernels.h"

namespace fp8::kernels {

using capstan::kernels::largest_of_warp;
using capstan::kernels::warp;
using Word = unsigned;  // 32 bits

constexpr Word infinity = 0x7f800000, not_a_number = 0x7fc00000;

// Magnitudes are compared as the bits of floats: these have the numbers' order, with infinity above all numbers and NaN
// above infinity.
struct Scale {
  float value, inverse;
};

/// See scales_for (quantise.cc).
template <bool e5m2>
__device__ Scale scale_for(Word magnitude) {
  constexpr int top = e5m2 ? 16 : 9, bias = 127;
  constexpr Word fraction = 0x7fffff, three_quarters = 0x600000;
  if (magnitude >= infinity) return {__uint_as_float(not_a_number), __uint_as_float(not_a_number)};
  const int above = (magnitude & fraction) > three_quarters ? 1 : 0;
  const int exponent = static_cast<int>(magnitude >> 23) - (bias - 1) + above - top;
  const int power = magnitude == 0 ? -top : max(1 - bias, min(bias - 1, exponent));
  return {__int_as_float((bias + power) << 23), __int_as_float((bias - power) << 23)};
}

/// 16 bytes of a matrix: their numbers, and the larger magnitudes of two such, two at a time where they have 16 bits.
template <class T>
struct Pack;

template <>
struct Pack<__nv_bfloat16> {
  static constexpr int width = 8;
  Word bits[4];
  static __device__ Word larger(Word a, Word b) { return __vmaxu2(a, b); }
  __device__ Word magnitudes(int i) const { return bits[i] & 0x7fff7fffu; }
  static __device__ Word magnitude(Word both, int j) { return j % 2 == 0 ? both << 16 : both & 0xffff0000u; }
  static __device__ Word largest(Word both) { return max(both & 0xffffu, both >> 16) << 16; }
  __device__ float operator[](int j) const { return __uint_as_float(magnitude(bits[j / 2], j)); }
};

template <>
struct Pack<float> {
  static constexpr int width = 4;
  Word bits[4];
  static __device__ Word larger(Word a, Word b) { return max(a, b); }
  __device__ Word magnitudes(int i) const { return bits[i] & 0x7fffffffu; }
  static __device__ Word magnitude(Word one, int) { return one; }
  static __device__ Word largest(Word one) { return one; }
  __device__ float operator[](int j) const { return __uint_as_float(bits[j]); }
};

template <class T>
__device__ Pack<T> load(const void* x, std::int64_t pack) {
  const uint4 bits = static_cast<const uint4*>(x)[pack];
  return {{bits.x, bits.y, bits.z, bits.w}};
}

template <class T>
__device__ void enlarge(Word& magnitude, const Pack<T>& pack) {
#pragma unroll
  for (int i = 0; i < 4; ++i) magnitude = Pack<T>::larger(magnitude, pack.magnitudes(i));
}

template <bool e5m2>
__device__ Word four(float a, float b, float c, float d) {
  constexpr auto format = e5m2 ? __NV_E5M2 : __NV_E4M3;
  const Word low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, format);
  const Word high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, format);
  return low | high << 16;
}

template <bool e5m2, class T>
__device__ void store(const Pack<T>& pack, float inverse, void* values, std::int64_t i) {
  const auto word = [&](int j) {
    return four<e5m2>(pack[j] * inverse, pack[j + 1] * inverse, pack[j + 2] * inverse, pack[j + 3] * inverse);
  };
  if constexpr (Pack<T>::width == 8) {
    static_cast<uint2*>(values)[i] = {word(0), word(4)};
  } else {
    static_cast<Word*>(values)[i] = word(0);
  }
}

template <bool e5m2>
constexpr float largest_zero =
    e5m2 ? 0x1p-17F : 0x1p-10F;  // half of the format's smallest number: a tie, and 0 is even

/// A thread's numbers that are not zero, and those of them that become zero.
struct ZeroCount {
  Word zeroed = 0, all = 0;
  template <bool e5m2, class T>
  __device__ void add(const Pack<T>& pack, float inverse) {
#pragma unroll
    for (int j = 0; j < Pack<T>::width; ++j) {
      all += pack[j] != 0 ? 1 : 0;
      zeroed += pack[j] != 0 && fabsf(pack[j] * inverse) <= largest_zero<e5m2> ? 1 : 0;
    }
  }
};

__device__ inline Word sum_of_warp(Word number) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(capstan::kernels::all_lanes, number);
#else
  return capstan::kernels::sum_of_lanes(number);
#endif
}

__device__ inline void add_count(std::int64_t* to, std::int64_t number) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(number));
}

/// The numbers of every 16th row are counted.
constexpr int counted_rows = 16;

/// What a row's threads have counted. `counts` as Rounding's.
__device__ inline void add_row(std::int64_t* counts, std::int64_t row, std::int64_t rows, float inverse,
                               const ZeroCount& mine) {
  if (threadIdx.x == 0 && row == 0) add_count(counts + 3, rows);
  if (threadIdx.x == 0 && isnan(inverse)) add_count(counts + 2, 1);
  if (row % counted_rows != 0) return;
  const Word zeroed = sum_of_warp(mine.zeroed), all = sum_of_warp(mine.all);
  if (threadIdx.x % warp != 0) return;
  add_count(counts, zeroed);
  add_count(counts + 1, all);
}

/// The largest of all threads' numbers. `turn`: calls in a row have 0 and 1 by turns, so that one wait is enough.
__device__ inline Word largest_of_block(Word magnitude, int turn) {
  __shared__ Word part[2][warp];
  magnitude = largest_of_warp(magnitude);
  const int warps = static_cast<int>(blockDim.x) / warp, thread = static_cast<int>(threadIdx.x);
  if (warps == 1) return magnitude;
  if (thread % warp == 0) part[turn][thread / warp] = magnitude;
  __syncthreads();
  return largest_of_warp(thread % warp < warps ? part[turn][thread % warp] : 0);
}

/// What is done with magnitudes: only they are found; they are found and used; they were found before.
enum class Magnitude { only, found, given };

/// Elements of a pack of 16 bytes.
inline int pack_of(const QuantiseCall& call) {
  return call.is_bfloat16 ? Pack<__nv_bfloat16>::width : Pack<float>::width;
}

/// body(T{}, e5m2) for the type of the call's x and the format of its result.
template <class Body>
void with_types(const QuantiseCall& call, const Body& body) {
  const auto with_format = [&](auto zero) {
    if (call.e5m2) {
      body(zero, std::true_type{});
    } else {
      body(zero, std::false_type{});
    }
  };
  if (call.is_bfloat16) {
    with_format(__nv_bfloat16{});
  } else {
    with_format(float{});
  }
}

}  // namespace fp8::kernels
