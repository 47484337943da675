#include "decode.h"

#include <capstan/kernels/floats.cuh>

#include "numbers.h"

namespace nf4 {
namespace {

constexpr int threads = 256;
constexpr int width = 8;   // elements that a thread writes at once
constexpr int rounds = 4;  // … and how often
constexpr int tile = threads * width * rounds;
constexpr int tile_blocks = tile / static_cast<int>(block);
static_assert(tile_blocks <= threads);

__constant__ std::array<float, 16> numbers_there = numbers;

using Word = std::uint32_t;

// What a thread's 8 elements become, in 16 bytes each. Two numbers at a time, which for 16 bits is one instruction. The
// compiler writes a struct of numbers one by one, and not 16 bytes at once.
template <class T>
struct Eight;

template <>
struct Eight<__nv_bfloat16> {
  static constexpr int packs = 1;
  static __device__ void set(Word* words, int i, float a, float b) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    words[i / 2] = *reinterpret_cast<const Word*>(&pair);
  }
};
template <>
struct Eight<__half> {
  static constexpr int packs = 1;
  static __device__ void set(Word* words, int i, float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    words[i / 2] = *reinterpret_cast<const Word*>(&pair);
  }
};
template <>
struct Eight<float> {
  static constexpr int packs = 2;
  static __device__ void set(Word* words, int i, float a, float b) {
    words[i] = __float_as_uint(a);
    words[i + 1] = __float_as_uint(b);
  }
};
template <>
struct Eight<double> {
  static constexpr int packs = 4;
  static __device__ void set_one(Word* words, double a) {
    words[0] = static_cast<Word>(__double2loint(a));
    words[1] = static_cast<Word>(__double2hiint(a));
  }
  static __device__ void set(Word* words, int i, float a, float b) {
    set_one(words + 2 * i, a);
    set_one(words + 2 * i + 2, b);
  }
};

__device__ float number_at(const float* numbers_here, Word byte) {
  return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(numbers_here) + byte);
}

// The magnitude of a block of 64. Sums and products are rounded one by one, as on CPU.
__device__ float magnitude_of(const DecodeCall& call, std::int64_t matrix, std::int64_t first) {
  const std::int64_t here = matrix * (call.elements / block) + first / block,
                     groups = groups_of(call.in_whole.elements);
  const float from_mean = call.map[call.magnitudes[here]];
  // Blocks are counted in 32 bits: to divide 64 takes long.
  const auto number = static_cast<Word>(first / block), run = static_cast<Word>(call.in_whole.run / block);
  const std::int64_t in_whole =
      call.in_whole.first / block + number / run * (call.in_whole.stride / block) + number % run;
  const float largest = call.nested[matrix * groups + in_whole / group];
  return __fadd_rn(__fmul_rn(from_mean, largest), call.offsets[matrix]);
}

// A thread block decodes a tile of one matrix.
template <class T>
__global__ void __launch_bounds__(threads) decode_tiles(const __grid_constant__ DecodeCall call) {
  constexpr int packs = Eight<T>::packs;
  __shared__ float magnitude[tile_blocks];
  __shared__ float number[16];
  const std::int64_t begin = std::int64_t{blockIdx.x} * tile, matrix = blockIdx.y;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t left = call.elements - begin;
  const int here = left < tile ? static_cast<int>(left) : tile;
  const auto* codes = reinterpret_cast<const Word*>(call.codes + (matrix * call.elements + begin) / 2) + thread;
  Word packed[rounds];
#pragma unroll
  for (int j = 0; j < rounds; ++j) packed[j] = (j * threads + thread) * width < here ? codes[j * threads] : 0;
  if (thread * static_cast<int>(block) < here) magnitude[thread] = magnitude_of(call, matrix, begin + thread * block);
  if (thread >= threads - 16)
    number[thread - (threads - 16)] = reinterpret_cast<const float*>(&numbers_there)[thread - (threads - 16)];
  __syncthreads();
  auto* out = reinterpret_cast<uint4*>(static_cast<T*>(call.out) + matrix * call.apart + begin) + thread * packs;
#pragma unroll
  for (int j = 0; j < rounds; ++j) {
    const int in_tile = (j * threads + thread) * width;
    const float by = magnitude[in_tile / static_cast<int>(block)];
    Word words[4 * packs];
#pragma unroll
    for (int k = 0; k < width; k += 2) {
      // The first of a byte's two elements is in its higher bits. A code is shifted to where it is a place in bytes.
      const Word pair = packed[j] >> (4 * k);
      const float first_of = number_at(number, pair >> 2 & 60U), second_of = number_at(number, pair << 2 & 60U);
      Eight<T>::set(words, k, __fmul_rn(first_of, by), __fmul_rn(second_of, by));
    }
    if (in_tile >= here) return;
#pragma unroll
    for (int p = 0; p < packs; ++p)
      out[j * threads * packs + p] = make_uint4(words[4 * p], words[4 * p + 1], words[4 * p + 2], words[4 * p + 3]);
  }
}

template <class T>
void launch(const DecodeCall& call, CUstream_st* stream) {
  const dim3 grid(static_cast<unsigned>(capstan::kernels::parts_of(call.elements, tile)),
                  static_cast<unsigned>(call.matrices));
  decode_tiles<T><<<grid, threads, 0, stream>>>(call);
}

}  // namespace

void decode(const DecodeCall& call, CUstream_st* stream) {
  capstan::kernels::with_type(call.type, [&](auto zero) { launch<decltype(zero)>(call, stream); });
}

}  // namespace nf4
