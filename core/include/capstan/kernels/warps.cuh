#pragma once
// What the threads of a warp find together; all of them call it, and all of them get it.

namespace capstan::kernels {

inline constexpr int warp = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;

/// The sum of each `lanes` neighbours, a power of two.
template <class Number>
__device__ Number sum_of_lanes(Number sum, int lanes = warp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(all_lanes, sum, distance);
  return sum;
}

/// The largest of a warp's numbers. Non-negative floats have the order of their bits, so these may be magnitudes.
__device__ inline unsigned largest_of_warp(unsigned number) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(all_lanes, number);
#else
  for (int distance = warp / 2; distance > 0; distance /= 2)
    number = max(number, __shfl_xor_sync(all_lanes, number, distance));
  return number;
#endif
}

}  // namespace capstan::kernels
