#include <capstan/kernels/swiglu.cuh>

#include "kernels/kernel.cuh"

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

template <class Number, bool tanh_form>
__device__ Activated<Number> activated(Number x) {
  if constexpr (tanh_form) {
    return by_tanh(x);
  } else {
    return by_normal(x);
  }
}

/// Packs that a thread reads before it computes: enough under way for the memory's rate.
constexpr int at_once = 2;

template <class T, int width, bool tanh_form>
__global__ void forward(Packed<T, width>* out, const Packed<T, width>* x, std::int64_t packs) {
  using Number = typename Float<T>::Number;
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
      result.value[i] = Float<T>::store(activated<Number, tanh_form>(Float<T>::load(in[k].value[i])).value);
    out[first + k * threads] = result;
  }
}

/// With `again` the activation's value takes the gradient's place.
template <class T, int width, bool tanh_form, bool again>
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
      const auto both = activated<Number, tanh_form>(Float<T>::load(in[k].value[i]));
      result.value[i] = Float<T>::store(Number{Float<T>::load(g[k].value[i])} * both.slope);
      if constexpr (again) value.value[i] = Float<T>::store(both.value);
    }
    out[first + k * threads] = result;
    if constexpr (again) gradient[first + k * threads] = value;
  }
}

template <bool tanh_form, class T, int width>
void launch(const GeluCall& call, Packed<T, width>, std::int64_t packs, CUstream_st* stream) {
  using Pack = Packed<T, width>;
  constexpr std::int64_t of_block = std::int64_t{threads} * at_once;
  const auto blocks = static_cast<unsigned>(parts_of(packs, of_block));
  Pack *const out = static_cast<Pack*>(call.out), *const gradient = static_cast<Pack*>(call.gradient);
  const Pack* const x = static_cast<const Pack*>(call.x);
  const auto back = call.again ? backward<T, width, tanh_form, true> : backward<T, width, tanh_form, false>;
  if (gradient == nullptr) {
    forward<T, width, tanh_form><<<blocks, threads, 0, stream>>>(out, x, packs);
  } else {
    back<<<blocks, threads, 0, stream>>>(out, gradient, x, packs);
  }
}

}  // namespace

void gelu(const GeluCall& call, CUstream_st* stream) {
  with_pack(call.type, call.numel, {call.out, call.x, call.gradient}, [&](auto pack, std::int64_t packs) {
    call.tanh ? launch<true>(call, pack, packs, stream) : launch<false>(call, pack, packs, stream);
  });
}

}  // namespace capstan::kernels
