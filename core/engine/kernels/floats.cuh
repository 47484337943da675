#pragma once
// From float types to numbers and back, rounding to nearest even as on CPU.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <initializer_list>

#include "kernels/launchers.h"

namespace capstan::kernels {

template <class T>
struct Float;

template <>
struct Float<double> {
  using Product = double;
  static __device__ double load(double x) { return x; }
  static __device__ double store(double x) { return x; }
};
template <>
struct Float<float> {
  using Product = float;
  static __device__ float load(float x) { return x; }
  static __device__ float store(float x) { return x; }
};
template <>
struct Float<__nv_bfloat16> {
  using Product = float;
  static __device__ float load(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 store(float x) { return __float2bfloat16_rn(x); }
};
template <>
struct Float<__half> {
  using Product = float;
  static __device__ float load(__half x) { return __half2float(x); }
  static __device__ __half store(float x) { return __float2half_rn(x); }
};

/// What a thread loads and stores at once.
template <class T, int width>
struct alignas(width * sizeof(T)) Packed {
  T value[width];
};

/// body(T{}) with the type that `type` names.
template <class Body>
void with_type(FloatType type, const Body& body) {
  switch (type) {
    case FloatType::float64:
      return body(double{});
    case FloatType::float32:
      return body(float{});
    case FloatType::bfloat16:
      return body(__nv_bfloat16{});
    case FloatType::half:
      return body(__half{});
  }
}

/// Does it begin at whole 16 bytes? Null does.
inline bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

/// body(Packed<T, width>{}, packs) for rows of `columns` numbers: packs have 16 bytes where all of them fit, else
/// single numbers.
template <class Body>
void with_pack(FloatType type, std::int64_t columns, std::initializer_list<const void*> pointers, const Body& body) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);
    if (columns % wide == 0 && std::all_of(pointers.begin(), pointers.end(), is_aligned)) {
      body(Packed<T, wide>{}, columns / wide);
    } else {
      body(Packed<T, 1>{}, columns);
    }
  });
}

/// Thread blocks for `count` items, one a thread; kernels stride over what is beyond.
inline unsigned blocks_for(std::int64_t count, int threads) {
  const std::int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20);
}

}  // namespace capstan::kernels
