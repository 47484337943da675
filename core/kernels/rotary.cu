#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256;

/// A thread block a token: cosines and sines once, then all heads. A thread reads both halves of what it writes, so
/// that heads may turn in place.
template <class T, int width>
__global__ void rotate(const __grid_constant__ RotaryCall call) {
  using Number = typename Float<T>::Number;
  using Pack = Packed<T, width>;
  __shared__ Number cosines[RotaryFrequencies::capacity], sines[RotaryFrequencies::capacity];
  const int packs = call.half / width;
  for (std::int64_t token = blockIdx.x; token < call.batch * call.length; token += gridDim.x) {
    const std::int64_t row = token / call.length, place = token % call.length;
    const auto position = static_cast<Number>(call.positions[token]);
    for (int i = static_cast<int>(threadIdx.x); i < call.half; i += threads) {
      Number sine, cosine;
      sine_cosine(position * static_cast<Number>(call.frequencies.value[i]), &sine, &cosine);
      cosines[i] = cosine;
      sines[i] = call.inverse ? -sine : sine;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < call.heads * packs; i += threads) {
      const int head = i / packs, k = i % packs * width;
      int part = 0, own = head;
      while (own >= call.from[part].heads) own -= call.from[part++].heads;
      const T* const in = static_cast<const T*>(call.from[part].data) + call.from[part].offset(row, place, own) + k;
      T* const to = static_cast<T*>(call.out) + call.to.offset(row, place, head) + k;
      Pack first = *reinterpret_cast<const Pack*>(in), second = *reinterpret_cast<const Pack*>(in + call.half);
      if (head < call.turned) {
#pragma unroll
        for (int j = 0; j < width; ++j) {
          const Number a = Float<T>::load(first.value[j]), b = Float<T>::load(second.value[j]);
          first.value[j] = Float<T>::store(a * cosines[k + j] - b * sines[k + j]);
          second.value[j] = Float<T>::store(b * cosines[k + j] + a * sines[k + j]);
        }
      }
      *reinterpret_cast<Pack*>(to) = first;
      *reinterpret_cast<Pack*>(to + call.half) = second;
    }
    __syncthreads();
  }
}

}  // namespace

void rotary(const RotaryCall& call, CUstream_st* stream) {
  const unsigned blocks = blocks_for(call.batch * call.length, 1);
  with_type(call.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);
    bool fits = call.half % wide == 0 && call.to.fits(call.out, wide, sizeof(T));
    for (const Heads& from : call.from) fits = fits && (from.heads == 0 || from.fits(from.data, wide, sizeof(T)));
    const auto kernel = fits ? rotate<T, wide> : rotate<T, 1>;
    kernel<<<blocks, threads, 0, stream>>>(call);
  });
}

}  // namespace capstan::kernels
