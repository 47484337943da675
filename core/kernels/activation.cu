#include <capstan/kernels/swiglu.cuh>

#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

template <class Number>
struct Activated {
  Number value, slope;
};

/// x · ½ (1 + tanh u), u = √(2/π) (x + 0.044715 x³): the factor is the sigmoid of 2 u.
template <class Number>
__device__ Activated<Number> by_tanh(Number x) {
  constexpr Number two_root = 1.5957691216057308, cubic = 0.044715;
  const Number square = x * x, s = sigmoid(two_root * x * (Number{1} + cubic * square));
  return {x * s, s + x * s * (Number{1} - s) * two_root * (Number{1} + 3 * cubic * square)};
}

/// x · Φ(x), Φ the normal distribution's.
template <class Number>
__device__ Activated<Number> by_normal(Number x) {
  constexpr Number density = 0.3989422804014327;  // 1 / √(2π)
  const Number below = normcdf(x);
  return {x * below, below + x * density * exp(Number{-0.5} * x * x)};
}

template <ActivationKind kind, class Number>
__device__ Activated<Number> activated(Number x) {
  if constexpr (kind == ActivationKind::gelu) {
    return by_normal(x);
  } else {
    return by_tanh(x);
  }
}

/// Packs that a thread reads before it computes: enough under way for the memory's rate.
constexpr int at_once = 2;

template <ActivationKind kind, class T, int width>
__global__ void forward(Packed<T, width>* out, const Packed<T, width>* x, std::int64_t packs) {
  const std::int64_t first = std::int64_t{blockIdx.x} * threads * at_once + threadIdx.x;
  Packed<T, width> in[at_once];
#pragma unroll
  for (int k = 0; k < at_once; ++k)
    if (first + k * threads < packs) in[k] = x[first + k * threads];
#pragma unroll
  for (int k = 0; k < at_once; ++k) {
    if (first + k * threads >= packs) continue;
    Packed<T, width> result;
#pragma unroll
    for (int i = 0; i < width; ++i)
      result.value[i] = Float<T>::store(activated<kind>(Float<T>::load(in[k].value[i])).value);
    out[first + k * threads] = result;
  }
}

/// With `again` the activation's value takes the gradient's place.
template <ActivationKind kind, bool again, class T, int width>
__global__ void backward(Packed<T, width>* out, Packed<T, width>* gradient, const Packed<T, width>* x,
                         std::int64_t packs) {
  using Number = typename Float<T>::Number;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads * at_once + threadIdx.x;
  Packed<T, width> in[at_once], g[at_once];
#pragma unroll
  for (int k = 0; k < at_once; ++k) {
    if (first + k * threads >= packs) continue;
    in[k] = x[first + k * threads];
    g[k] = gradient[first + k * threads];
  }
#pragma unroll
  for (int k = 0; k < at_once; ++k) {
    if (first + k * threads >= packs) continue;
    Packed<T, width> result, value;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const auto both = activated<kind>(Float<T>::load(in[k].value[i]));
      result.value[i] = Float<T>::store(Number{Float<T>::load(g[k].value[i])} * both.slope);
      if constexpr (again) value.value[i] = Float<T>::store(both.value);
    }
    out[first + k * threads] = result;
    if constexpr (again) gradient[first + k * threads] = value;
  }
}

template <ActivationKind kind, class Number>
__device__ Number gated(Number gate, Number up) {
  if constexpr (kind == ActivationKind::swiglu) {
    return swiglu_of(gate, up);
  } else {
    return activated<kind>(gate).value * up;
  }
}

template <ActivationKind kind, class Number>
__device__ SwigluGradient<Number> gated_gradient(Number d, Number gate, Number up) {
  if constexpr (kind == ActivationKind::swiglu) {
    return swiglu_gradient(d, gate, up);
  } else {
    const auto by = activated<kind>(gate);
    return {d * up * by.slope, d * by.value};
  }
}

/// A row of thread blocks for each row of x; `columns` packs in a half of it.
template <ActivationKind kind, class T, int width>
__global__ void gated_forward(Packed<T, width>* out, const Packed<T, width>* x, std::int64_t rows,
                              std::int64_t columns) {
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
        result.value[i] = Float<T>::store(gated<kind>(a, b));
      }
      out[row * columns + c] = result;
    }
  }
}

/// With `again` what forward gives takes the gradient's place.
template <ActivationKind kind, bool again, class T, int width>
__global__ void gated_backward(Packed<T, width>* out, Packed<T, width>* gradient, const Packed<T, width>* x,
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
        const auto both = gated_gradient<kind, Number>(Float<T>::load(g.value[i]), a, b);
        of_gate.value[i] = Float<T>::store(both.of_gate);
        of_up.value[i] = Float<T>::store(both.of_up);
        if constexpr (again) value.value[i] = Float<T>::store(gated<kind>(a, b));
      }
      out[begin + c] = of_gate;
      out[begin + columns + c] = of_up;
      if constexpr (again) gradient[row * columns + c] = value;
    }
  }
}

template <ActivationKind kind, class T, int width>
void launch(const ActivationCall& call, Packed<T, width>, std::int64_t packs, CUstream_st* stream) {
  using Pack = Packed<T, width>;
  Pack *const out = static_cast<Pack*>(call.out), *const gradient = static_cast<Pack*>(call.gradient);
  const Pack* const x = static_cast<const Pack*>(call.x);
  if constexpr (kind == ActivationKind::gelu || kind == ActivationKind::gelu_tanh) {
    constexpr std::int64_t of_block = std::int64_t{threads} * at_once;
    const auto blocks = static_cast<unsigned>(parts_of(packs, of_block));
    const auto back = call.again ? backward<kind, true, T, width> : backward<kind, false, T, width>;
    if (gradient == nullptr) return forward<kind><<<blocks, threads, 0, stream>>>(out, x, packs);
    back<<<blocks, threads, 0, stream>>>(out, gradient, x, packs);
  } else {
    const dim3 grid{blocks_for(packs, threads), static_cast<unsigned>(call.rows < 65535 ? call.rows : 65535)};
    const auto back = call.again ? gated_backward<kind, true, T, width> : gated_backward<kind, false, T, width>;
    if (gradient == nullptr) return gated_forward<kind><<<grid, threads, 0, stream>>>(out, x, call.rows, packs);
    back<<<grid, threads, 0, stream>>>(out, gradient, x, call.rows, packs);
  }
}

}  // namespace

void activation(const ActivationCall& call, CUstream_st* stream) {
  with_pack(call.type, call.columns, {call.out, call.x, call.gradient}, [&](auto pack, std::int64_t packs) {
    using enum ActivationKind;
    switch (call.kind) {
      case gelu:
        return launch<gelu>(call, pack, packs, stream);
      case gelu_tanh:
        return launch<gelu_tanh>(call, pack, packs, stream);
      case swiglu:
        return launch<swiglu>(call, pack, packs, stream);
      case geglu_tanh:
        return launch<geglu_tanh>(call, pack, packs, stream);
    }
  });
}

}  // namespace capstan::kernels
