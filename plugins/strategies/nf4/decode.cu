#include "decode.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nf4 {
namespace {

constexpr int threads = 256;
constexpr int width = 8;   // elements that a thread writes at once
constexpr int rounds = 4;  // … and how often
constexpr int tile = threads * width * rounds;
constexpr int block = 64;
constexpr int shared_by = 64 * 256;  // elements that share a nested magnitude
static_assert(shared_by % tile == 0 && tile / block <= threads);

__constant__ float numbers[16] = {-1.0F,
                                  -0.6961928009986877F,
                                  -0.5250730514526367F,
                                  -0.39491748809814453F,
                                  -0.28444138169288635F,
                                  -0.18477343022823334F,
                                  -0.09105003625154495F,
                                  0.0F,
                                  0.07958029955625534F,
                                  0.16093020141124725F,
                                  0.24611230194568634F,
                                  0.33791524171829224F,
                                  0.44070982933044434F,
                                  0.5626170039176941F,
                                  0.7229568362236023F,
                                  1.0F};

template <class T>
struct alignas(sizeof(T) * width < 16 ? sizeof(T) * width : 16) Pack {
  T value[width];
};

// Two numbers at a time, which for 16 bits is one instruction.
__device__ void store(double* to, float a, float b) {
  to[0] = a;
  to[1] = b;
}
__device__ void store(float* to, float a, float b) {
  to[0] = a;
  to[1] = b;
}
__device__ void store(__nv_bfloat16* to, float a, float b) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}
__device__ void store(__half* to, float a, float b) { *reinterpret_cast<__half2*>(to) = __floats2half2_rn(a, b); }

__device__ float number_at(const float* numbers_here, std::uint32_t byte) {
  return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(numbers_here) + byte);
}

// A thread block decodes a tile of one matrix. Sums and products are rounded one by one, as on CPU.
template <class T>
__global__ void __launch_bounds__(threads) decode_tiles(T* out, DecodeCall call) {
  __shared__ float magnitude[tile / block];
  __shared__ float number[16];
  const std::int64_t begin = std::int64_t{blockIdx.x} * tile, matrix = blockIdx.y;
  const auto* codes = reinterpret_cast<const std::uint32_t*>(call.codes + matrix * (call.elements / 2));
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t packed[rounds];
#pragma unroll
  for (int j = 0; j < rounds; ++j) {
    const std::int64_t first = begin + (j * threads + thread) * width;
    packed[j] = first < call.elements ? codes[first / width] : 0;
  }
  if (thread < tile / block && begin + thread * block < call.elements) {
    const std::int64_t groups = (call.elements + shared_by - 1) / shared_by;
    const float from_mean = call.map[call.magnitudes[matrix * (call.elements / block) + begin / block + thread]];
    const float distance = __fmul_rn(from_mean, call.nested[matrix * groups + begin / shared_by]);
    magnitude[thread] = __fadd_rn(distance, call.offsets[matrix]);
  }
  if (thread >= threads - 16) number[thread - (threads - 16)] = numbers[thread - (threads - 16)];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < rounds; ++j) {
    const int in_tile = (j * threads + thread) * width;
    if (begin + in_tile >= call.elements) return;
    const float by = magnitude[in_tile / block];
    Pack<T> result;
#pragma unroll
    for (int k = 0; k < width; k += 2) {
      // The first of a byte's two elements is in its higher bits. A code is shifted to where it is a place in bytes.
      const std::uint32_t pair = packed[j] >> (4 * k);
      const float first_of = number_at(number, pair >> 2 & 60U), second_of = number_at(number, pair << 2 & 60U);
      store(result.value + k, __fmul_rn(first_of, by), __fmul_rn(second_of, by));
    }
    *reinterpret_cast<Pack<T>*>(out + matrix * call.apart + begin + in_tile) = result;
  }
}

template <class T>
void launch(const DecodeCall& call, CUstream_st* stream) {
  const dim3 grid(static_cast<unsigned>((call.elements + tile - 1) / tile), static_cast<unsigned>(call.matrices));
  decode_tiles<<<grid, threads, 0, stream>>>(static_cast<T*>(call.out), call);
}

}  // namespace

void decode(const DecodeCall& call, CUstream_st* stream) {
  switch (call.type) {
    case FloatType::float64:
      return launch<double>(call, stream);
    case FloatType::float32:
      return launch<float>(call, stream);
    case FloatType::bfloat16:
      return launch<__nv_bfloat16>(call, stream);
    case FloatType::half:
      return launch<__half>(call, stream);
  }
}

}  // namespace nf4
