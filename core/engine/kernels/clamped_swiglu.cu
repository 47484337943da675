#include <capstan/kernels/swiglu.cuh>

#include "kernels/kernel.cuh"

namespace capstan::kernels {
namespace {

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

/// A row of thread blocks for each row of x.
template <class T, int width, bool is_backward>
__global__ void gate(Operands<T, width> a) {
  using Number = typename Float<T>::Number;
  using P = Packed<T, width>;
  const Number limit = static_cast<Number>(a.limit), slope = static_cast<Number>(a.slope);
  for (std::int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const std::int64_t begin = row * 2 * a.columns;
    const P* const bias = a.bias ? a.bias + a.group[row] * 2 * a.columns : nullptr;
    for (std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x; c < a.columns;
         c += std::int64_t{gridDim.x} * threads) {
      const P gates = a.x[begin + c], ups = a.x[begin + a.columns + c];
      P of_gate{}, of_up{}, d{};
      if (bias) of_gate = bias[c];
      if (bias) of_up = bias[a.columns + c];
      if constexpr (is_backward) d = a.gradient[row * a.columns + c];
#pragma unroll
      for (int i = 0; i < width; ++i) {
        Number g = Float<T>::load(gates.value[i]), u = Float<T>::load(ups.value[i]);
        if (bias) g = Float<T>::load(Float<T>::store(g + Float<T>::load(of_gate.value[i])));
        if (bias) u = Float<T>::load(Float<T>::store(u + Float<T>::load(of_up.value[i])));
        const bool gate_passes = g <= limit, up_passes = u <= limit && u >= -limit;
        if (g > limit) g = limit;
        if (u > limit) u = limit;
        if (u < -limit) u = -limit;
        const Number s = sigmoid(slope * g);
        if constexpr (is_backward) {
          const Number by = Float<T>::load(d.value[i]);
          of_gate.value[i] = Float<T>::store(gate_passes ? by * (u + 1) * s * (1 + slope * g * (1 - s)) : Number{0});
          of_up.value[i] = Float<T>::store(up_passes ? by * g * s : Number{0});
        } else {
          of_gate.value[i] = Float<T>::store(g * s * (u + 1));
        }
      }
      if constexpr (is_backward) {
        a.out[begin + c] = of_gate;
        a.out[begin + a.columns + c] = of_up;
      } else {
        a.out[row * a.columns + c] = of_gate;
      }
    }
  }
}

}  // namespace

void clamped_swiglu(const ClampedSwiglu& call, CUstream_st* stream) {
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

}  // namespace capstan::kernels
