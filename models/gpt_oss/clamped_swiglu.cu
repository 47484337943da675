#include <capstan/kernels/floats.cuh>
#include <capstan/kernels/swiglu.cuh>

#include "kernels.h"

namespace gpt_oss {
namespace {

using capstan::kernels::blocks_for;
using capstan::kernels::Float;
using capstan::kernels::Packed;
using capstan::kernels::sigmoid;
using capstan::kernels::with_pack;

constexpr int threads = 256;

template <class T, int width>
struct Operands {
  using P = Packed<T, width>;
  P* out;
  const P* gradient;
  const P* x;
  const P* bias;  ///< null: none
  const std::int64_t* group;
  std::int64_t rows, columns;  ///< `columns` packs in a half of x
  double limit, slope;
};

template <class Number>
struct Limits {
  Number limit, slope;
};

/// Gate and up of one number, limited.
template <class Number>
struct Limited {
  Number gate, up;
  bool gate_passes, up_passes;
  __device__ Limited(Number a, Number b, Number limit)
      : gate(a > limit ? limit : a),
        up(b > limit    ? limit
           : b < -limit ? -limit
                        : b),
        gate_passes(a <= limit),
        up_passes(b <= limit && b >= -limit) {}
};

/// x with its bias, rounded as a product's result would be.
template <class T>
__device__ auto biased(T x, const T* bias) {
  const auto number = Float<T>::load(x);
  return bias ? Float<T>::load(Float<T>::store(number + Float<T>::load(*bias))) : number;
}

/// Forward: gate becomes the result. Backward: gate and up become their gradients, and `by` is the result's.
template <class T, bool is_backward>
__device__ void pass(T& gate, T& up, const T* bias_of_gate, const T* bias_of_up, T by,
                     Limits<typename Float<T>::Number> how) {
  using Number = typename Float<T>::Number;
  const Limited<Number> in(biased(gate, bias_of_gate), biased(up, bias_of_up), how.limit);
  const Number s = sigmoid(how.slope * in.gate);
  if constexpr (is_backward) {
    const Number d = Float<T>::load(by), of_gate = d * (in.up + 1) * s * (1 + how.slope * in.gate * (1 - s));
    gate = Float<T>::store(in.gate_passes ? of_gate : Number{0});
    up = Float<T>::store(in.up_passes ? d * in.gate * s : Number{0});
  } else {
    gate = Float<T>::store(in.gate * s * (in.up + 1));
  }
}

/// A row of thread blocks for each row of x.
template <class T, int width, bool is_backward>
__global__ void gate(Operands<T, width> a) {
  using P = Packed<T, width>;
  using Number = typename Float<T>::Number;
  const Limits<Number> how{static_cast<Number>(a.limit), static_cast<Number>(a.slope)};
  for (std::int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const std::int64_t begin = row * 2 * a.columns;
    const P* const bias = a.bias ? a.bias + a.group[row] * 2 * a.columns : nullptr;
    for (std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x; c < a.columns;
         c += std::int64_t{gridDim.x} * threads) {
      P gates = a.x[begin + c], ups = a.x[begin + a.columns + c], by{}, of_gates{}, of_ups{};
      if (bias) of_gates = bias[c], of_ups = bias[a.columns + c];
      if constexpr (is_backward) by = a.gradient[row * a.columns + c];
#pragma unroll
      for (int i = 0; i < width; ++i) {
        pass<T, is_backward>(gates.value[i], ups.value[i], bias ? &of_gates.value[i] : nullptr,
                             bias ? &of_ups.value[i] : nullptr, by.value[i], how);
      }
      a.out[is_backward ? begin + c : row * a.columns + c] = gates;
      if constexpr (is_backward) a.out[begin + a.columns + c] = ups;
    }
  }
}

}  // namespace

void clamped_swiglu_pass(const ClampedSwigluCall& call, CUstream_st* stream) {
  const auto launch = [&]<class T, int width>(Packed<T, width>, std::int64_t packs) {
    using P = Packed<T, width>;
    const Operands<T, width> operands{static_cast<P*>(call.out),
                                      static_cast<const P*>(call.gradient),
                                      static_cast<const P*>(call.x),
                                      static_cast<const P*>(call.bias),
                                      call.group,
                                      call.rows,
                                      packs,
                                      call.limit,
                                      call.slope};
    const dim3 grid{blocks_for(packs, threads), static_cast<unsigned>(call.rows < 65535 ? call.rows : 65535)};
    const auto kernel = call.gradient ? gate<T, width, true> : gate<T, width, false>;
    kernel<<<grid, threads, 0, stream>>>(operands);
  };
  with_pack(call.type, call.columns, {call.out, call.gradient, call.x, call.bias}, launch);
}

}  // namespace gpt_oss
