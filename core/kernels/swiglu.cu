#include <capstan/kernels/swiglu.cuh>

#include "kernels/floats.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

template <class T, int width>
struct alignas(width * sizeof(T)) Pack {
  T value[width];
};

/// A row of thread blocks for each row of x; `columns` packs in a half of it.
template <class T, int width>
__global__ void forward(Pack<T, width>* out, const Pack<T, width>* x, std::int64_t rows, std::int64_t columns) {
  using Number = typename Float<T>::Product;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Pack<T, width>* const in = x + row * 2 * columns;
    for (std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x; c < columns;
         c += std::int64_t{gridDim.x} * threads) {
      const Pack<T, width> gate = in[c], up = in[columns + c];
      Pack<T, width> result;
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
__global__ void backward(Pack<T, width>* out, Pack<T, width>* gradient, const Pack<T, width>* x, std::int64_t rows,
                         std::int64_t columns) {
  using Number = typename Float<T>::Product;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const std::int64_t begin = row * 2 * columns;
    for (std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x; c < columns;
         c += std::int64_t{gridDim.x} * threads) {
      const Pack<T, width> gate = x[begin + c], up = x[begin + columns + c], g = gradient[row * columns + c];
      Pack<T, width> of_gate, of_up, value;
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

bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

dim3 grid_for(std::int64_t rows, std::int64_t columns) {
  return {blocks_for(columns, threads), static_cast<unsigned>(rows < 65535 ? rows : 65535)};
}

/// body(T, width): 8 elements a thread where rows and pointers allow it, else one.
template <class Body>
void with_pack(FloatType type, std::int64_t columns, const void* a, const void* b, const void* c, const Body& body) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);
    using Wide = Pack<T, wide>;
    const auto fits = [](const void* p) { return is_aligned(p, sizeof(Wide)); };
    if (columns % wide == 0 && fits(a) && fits(b) && fits(c)) {
      body(Wide{}, columns / wide);
    } else {
      body(Pack<T, 1>{}, columns);
    }
  });
}

template <class T, int width>
void launch(Pack<T, width>* out, const Pack<T, width>* x, std::int64_t rows, std::int64_t columns,
            CUstream_st* stream) {
  forward<T, width><<<grid_for(rows, columns), threads, 0, stream>>>(out, x, rows, columns);
}

}  // namespace

void swiglu(void* out, const void* x, FloatType type, std::int64_t rows, std::int64_t columns, CUstream_st* stream) {
  with_pack(type, columns, out, x, x, [&](auto pack, std::int64_t packs) {
    using P = decltype(pack);
    launch(static_cast<P*>(out), static_cast<const P*>(x), rows, packs, stream);
  });
}

void swiglu_backward(const SwigluBackward& call, CUstream_st* stream) {
  const auto launch_of = [&]<class T, int width>(Pack<T, width>, std::int64_t packs) {
    using P = Pack<T, width>;
    const auto kernel = call.again ? backward<T, width, true> : backward<T, width, false>;
    kernel<<<grid_for(call.rows, packs), threads, 0, stream>>>(
        static_cast<P*>(call.out), static_cast<P*>(call.gradient), static_cast<const P*>(call.x), call.rows, packs);
  };
  with_pack(call.type, call.columns, call.out, call.gradient, call.x, launch_of);
}

}  // namespace capstan::kernels
