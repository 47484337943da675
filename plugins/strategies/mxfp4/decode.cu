#include "decode.h"

#include <capstan/kernels/floats.cuh>

#include "numbers.h"

namespace mxfp4 {
namespace {

namespace kernels = capstan::kernels;

constexpr int threads = 256;
constexpr int width = 8;  // elements that a thread writes: those of four bytes

__constant__ std::array<float, 16> numbers_there = numbers;

// 2^(byte - 127): a float32's bits but for the smallest, which is subnormal.
__device__ float scale_of(std::uint8_t byte) {
  return __uint_as_float(byte == 0 ? 0x00400000U : static_cast<std::uint32_t>(byte) << 23U);
}

template <class T>
__global__ void decode_words(DecodeCall call) {
  using Eight = kernels::Packed<T, width * sizeof(T) <= 16 ? width : 16 / sizeof(T)>;
  constexpr int each = sizeof(Eight) / sizeof(T);
  __shared__ float number[16];
  if (threadIdx.x < 16) number[threadIdx.x] = reinterpret_cast<const float*>(&numbers_there)[threadIdx.x];
  __syncthreads();
  const std::int64_t first = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * width, matrix = blockIdx.y;
  if (first >= call.elements) return;
  const std::int64_t begin = matrix * call.elements + first;
  const auto word = reinterpret_cast<const std::uint32_t*>(call.codes)[begin / width];
  const float scale = scale_of(call.scales[begin / group]);
  auto* out = reinterpret_cast<Eight*>(static_cast<T*>(call.out) + matrix * call.apart + first);
#pragma unroll
  for (int p = 0; p < width / each; ++p) {
    Eight pack;
#pragma unroll
    for (int i = 0; i < each; ++i)
      pack.value[i] = kernels::Float<T>::store(number[word >> (4 * (p * each + i)) & 15U] * scale);
    out[p] = pack;
  }
}

}  // namespace

void decode(const DecodeCall& call, CUstream_st* stream) {
  kernels::with_type(call.type, [&](auto zero) {
    const dim3 grid(static_cast<unsigned>(kernels::parts_of(call.elements, std::int64_t{threads} * width)),
                    static_cast<unsigned>(call.matrices));
    decode_words<decltype(zero)><<<grid, threads, 0, stream>>>(call);
  });
}

}  // namespace mxfp4
