#pragma once
// From float types to the numbers that kernels calculate with and back, rounding to nearest even as on CPU.
#include <capstan/kernels/launcher.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <initializer_list>

namespace capstan::kernels {

/// Number: what T's products and sums are; load(T) and store(Number) convert. double and float are numbers themselves.
template <class T>
struct Float {
  using Number = T;
  static __device__ T load(T x) { return x; }
  static __device__ T store(T x) { return x; }
};
template <>
struct Float<__nv_bfloat16> {
  using Number = float;
  static __device__ float load(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 store(float x) { return __float2bfloat16_rn(x); }
};
template <>
struct Float<__half> {
  using Number = float;
  static __device__ float load(__half x) { return __half2float(x); }
  static __device__ __half store(float x) { return __float2half_rn(x); }
};

__device__ inline void sine_cosine(float angle, float* sine, float* cosine) { sincosf(angle, sine, cosine); }
__device__ inline void sine_cosine(double angle, double* sine, double* cosine) { sincos(angle, sine, cosine); }

/// What a thread loads and stores at once, in up to 16 bytes.
template <class T, int width>
struct alignas(width * sizeof(T)) Packed {
  T value[width];
};

/// body(T{}) with the type that `type` names, on the host or in a kernel: where body runs is not checked.
#pragma nv_exec_check_disable
template <class Body>
CAPSTAN_HOST_DEVICE void with_type(FloatType type, const Body& body) {
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

/// body(Packed<T, width>{}, packs) for rows of `columns` numbers: packs have 16 bytes where all of them fit, else
/// single numbers.
template <class Body>
void with_pack(FloatType type, std::int64_t columns, std::initializer_list<const void*> pointers, const Body& body) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);
    const auto fits = [](const void* pointer) { return is_aligned(pointer); };
    if (columns % wide == 0 && std::all_of(pointers.begin(), pointers.end(), fits)) {
      body(Packed<T, wide>{}, columns / wide);
    } else {
      body(Packed<T, 1>{}, columns);
    }
  });
}

/// Thread blocks for `count` items, one a thread; kernels stride over what is beyond.
inline unsigned blocks_for(std::int64_t count, int threads) {
  const std::int64_t blocks = parts_of(count, threads);
  return static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20);
}

}  // namespace capstan::kernels
