#pragma once
// SwiGLU and its gradient for packs of a row, rounded to 16 bits as they would be in memory.
#include <capstan/kernels/swiglu.cuh>

#include "quantise.cuh"

namespace fp8::kernels {

using SwigluType = __nv_bfloat16;
using SwigluPack = Pack<SwigluType>;

/// Two numbers, rounded to 16 bits.
__device__ inline Word two(float low, float high) {
  const __nv_bfloat162 both(__float2bfloat16_rn(low), __float2bfloat16_rn(high));
  return *reinterpret_cast<const Word*>(&both);
}

__device__ inline SwigluPack swiglu_pack(const SwigluPack& gate, const SwigluPack& up) {
  SwigluPack out;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    out.bits[i] = two(capstan::kernels::swiglu_of(gate[2 * i], up[2 * i]),
                      capstan::kernels::swiglu_of(gate[2 * i + 1], up[2 * i + 1]));
  return out;
}

__device__ inline void gradient_packs(SwigluPack& of_gate, SwigluPack& of_up, const SwigluPack& gradient,
                                      const SwigluPack& gate, const SwigluPack& up) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto low = capstan::kernels::swiglu_gradient(gradient[2 * i], gate[2 * i], up[2 * i]);
    const auto high = capstan::kernels::swiglu_gradient(gradient[2 * i + 1], gate[2 * i + 1], up[2 * i + 1]);
    of_gate.bits[i] = two(low.of_gate, high.of_gate);
    of_up.bits[i] = two(low.of_up, high.of_up);
  }
}

}  // namespace fp8::kernels
