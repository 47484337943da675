#include <capstan/kernels/swiglu.cuh>

#include "kernels/kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

/// A row of thread blocks for each row of x; `columns` packs in a half of it.
template <class T, int width>
__global__ void forward(Packed<T, width>* out, const Packed<T, width>* x, std::int64_t rows, std::int64_t columns) {
  using Number = typename Float<T>::Number;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Packed<T, width>* const in = x + row * 2 * columns;
    for (std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x; c < columns;
         c += std::int64_t{gridDim.x} * threads) {
      const Packed<T, width> gate = in[c], up = in[columns + c];
      Packed<T, width> result;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const Number a = Float<T>::load(gate.value[i]), b = Float<T>::load(up.value[i]);
        result.value[i] = Float<T>::store(swiglu_of(a, b));
      }
      out[row * columns + c] = result;
    }
  }
}

/// With `again` what forward gives takes the gradient's place.
template <class T, int width, bool again>
__global__ void backward(Packed<T, width>* out, Packed<T, width>* gradient, const Packed<T, width>* x,
                         std::int64_t rows, std::int64_t columns) {
  using Number = typename Float<T>::Number;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const std::int64_t begin = row * 2 * columns;
    for (std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x; c < columns;
         c += std::int64_t{gridDim.x} * threads) {
      const Packed<T, width> gate = x[begin + c], up = x[begin + columns + c], g = gradient[row * columns + c];
      Packed<T, width> of_gate, of_up, value;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const Number a = Float<T>::load(gate.value[i]), b = Float<T>::load(up.value[i]);
        const auto both = swiglu_gradient<Number>(Float<T>::load(g.value[i]), a, b);
        of_gate.value[i] = Float<T>::store(both.of_gate);
        of_up.value[i] = Float<T>::store(both.of_up);
        if constexpr (again) value.value[i] = Float<T>::store(swiglu_of(a, b));
      }
      out[begin + c] = of_gate;
      out[begin + columns + c] = of_up;
      if constexpr (again) gradient[row * columns + c] = value;
    }
  }
}

dim3 grid_for(std::int64_t rows, std::int64_t columns) {
  return {blocks_for(columns, threads), static_cast<unsigned>(rows < 65535 ? rows : 65535)};
}

}  // namespace

void swiglu(void* out, const void* x, FloatType type, std::int64_t rows, std::int64_t columns, CUstream_st* stream) {
  with_pack(type, columns, {out, x}, [&]<class T, int width>(Packed<T, width>, std::int64_t packs) {
    using P = Packed<T, width>;
    forward<T, width>
        <<<grid_for(rows, packs), threads, 0, stream>>>(static_cast<P*>(out), static_cast<const P*>(x), rows, packs);
  });
}

void swiglu_backward(const SwigluBackward& call, CUstream_st* stream) {
  const auto launch = [&]<class T, int width>(Packed<T, width>, std::int64_t packs) {
    using P = Packed<T, width>;
    const auto kernel = call.again ? backward<T, width, true> : backward<T, width, false>;
    kernel<<<grid_for(call.rows, packs), threads, 0, stream>>>(
        static_cast<P*>(call.out), static_cast<P*>(call.gradient), static_cast<const P*>(call.x), call.rows, packs);
  };
  with_pack(call.type, call.columns, {call.out, call.gradient, call.x}, launch);
}

}  // namespace capstan::kernels
