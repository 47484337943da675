#pragma once
// From float types to the numbers that sums are made of and back, rounding to nearest even as on CPU.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace qwen3 {

template <class T>
struct Float {
  using Number = float;
};
template <>
struct Float<double> {
  using Number = double;
};

inline __device__ double number(double x) { return x; }
inline __device__ float number(float x) { return x; }
inline __device__ float number(__nv_bfloat16 x) { return __bfloat162float(x); }
inline __device__ float number(__half x) { return __half2float(x); }

inline __device__ void round_to(double* out, double x) { *out = x; }
inline __device__ void round_to(float* out, float x) { *out = x; }
inline __device__ void round_to(__nv_bfloat16* out, float x) { *out = __float2bfloat16_rn(x); }
inline __device__ void round_to(__half* out, float x) { *out = __float2half_rn(x); }

inline __device__ void sine_cosine(float angle, float* sine, float* cosine) { sincosf(angle, sine, cosine); }
inline __device__ void sine_cosine(double angle, double* sine, double* cosine) { sincos(angle, sine, cosine); }

}  // namespace qwen3
