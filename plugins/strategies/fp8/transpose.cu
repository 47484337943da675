#include "transpose.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace fp8 {
namespace {

constexpr int warp = 32;
constexpr int warps = 8;
constexpr int width = 4;              // bytes that a thread reads or writes at once
constexpr int tile = warp * width;    // rows and columns of a block's part
constexpr int rounds = warp / warps;  // how often a warp reads `width` rows

__device__ float2 numbers_of(unsigned two) {
  const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
  return __half22float2(__half2(raw));
}

// Four neighbours of a row under their columns' scales.
__device__ unsigned rescaled(unsigned bytes, float scale, const float4& inverse) {
  const float2 low = numbers_of(bytes & 0xffffu), high = numbers_of(bytes >> 16);
  const unsigned first = __nv_cvt_float2_to_fp8x2(make_float2(low.x * scale * inverse.x, low.y * scale * inverse.y),
                                                  __NV_SATFINITE, __NV_E4M3);
  const unsigned second = __nv_cvt_float2_to_fp8x2(make_float2(high.x * scale * inverse.z, high.y * scale * inverse.w),
                                                   __NV_SATFINITE, __NV_E4M3);
  return first | second << 16;
}

// Four rows of four bytes become four columns.
__device__ void transpose_bytes(unsigned (&rows)[width]) {
  const unsigned a = __byte_perm(rows[0], rows[1], 0x5140), b = __byte_perm(rows[2], rows[3], 0x5140);
  const unsigned c = __byte_perm(rows[0], rows[1], 0x7362), d = __byte_perm(rows[2], rows[3], 0x7362);
  rows[0] = __byte_perm(a, b, 0x5410);
  rows[1] = __byte_perm(a, b, 0x7632);
  rows[2] = __byte_perm(c, d, 0x5410);
  rows[3] = __byte_perm(c, d, 0x7632);
}

// Powers of two: multiplying by the inverse is dividing.
__device__ float4 inverse_of(const float4& of) { return make_float4(1 / of.x, 1 / of.y, 1 / of.z, 1 / of.w); }

__device__ int exponent_of(float scale) { return static_cast<int>(__float_as_uint(scale) >> 23); }

constexpr unsigned each = 0x01010101;  // times a number: it in all four bytes

// Four neighbouring columns. Scales are powers of two, so that a number keeps its digits: k is added to its exponent,
// bits 3 to 6, where row's and column's scales are 2^k apart. All four at once, by integers, where no k is below -8 or
// above 7, and where all four and their results have all of their digits; else one by one. A conversion is several
// times as expensive as all of this, and nearly all weights are of the first kind.
struct Columns {
  static constexpr int most_apart = 4;  // exponents of the four columns' scales
  float4 inverse;
  int least, apart;  // exponents
  unsigned shifts;   // 8 · (most_apart - (a column's exponent - the least)), a byte a column

  __device__ explicit Columns(const float* scales) {
    const float4 of = *reinterpret_cast<const float4*>(scales);
    inverse = inverse_of(of);
    const int x = exponent_of(of.x), y = exponent_of(of.y), z = exponent_of(of.z), w = exponent_of(of.w);
    least = min(min(x, y), min(z, w));
    apart = max(max(x, y), max(z, w)) - least;
    const auto shift = [&](int exponent) { return static_cast<unsigned>(8 * (most_apart - (exponent - least))); };
    shifts = shift(x) | shift(y) << 8 | shift(z) << 16 | shift(w) << 24;
  }
  __device__ unsigned rescaled(unsigned bytes, float scale) const {
    const int up = exponent_of(scale) - least + most_apart;
    if (apart <= most_apart && up >= 0 && up + most_apart <= 15) {
      const unsigned magnitudes = bytes & (0x7f * each);
      const unsigned moved =
          magnitudes + shifts + 8 * static_cast<unsigned>(up) * each;  // + 8 k + 64: no byte overflows
      const unsigned had_digits = magnitudes + 0x78 * each, has_digits = moved + 0x38 * each;
      if ((had_digits & has_digits & (0x80 * each)) == 0x80 * each)
        return (moved - 0x40 * each) | (bytes & (0x80 * each));
    }
    return fp8::rescaled(bytes, scale, inverse);
  }
};

struct Quads {
  unsigned bytes[rounds][width];
  float4 scales[rounds];
};

// Of the rows that a warp has of a block's part, a thread's columns.
__device__ void read(const TransposeCall& call, std::int64_t matrix, std::int64_t first_row, std::int64_t column,
                     Quads& quads) {
  const std::int64_t first = matrix * call.rows;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const auto row = first_row + i * warps * width;
    const bool inside = column < call.columns && row < call.rows;
    const auto at = first + row;
#pragma unroll
    for (int j = 0; j < width; ++j)
      quads.bytes[i][j] = inside ? *reinterpret_cast<const unsigned*>(call.in + (at + j) * call.columns + column) : 0;
    quads.scales[i] = inside ? *reinterpret_cast<const float4*>(call.row_scales + at) : make_float4(1, 1, 1, 1);
  }
}

// A warp reads whole lines of a row, and writes whole lines of a column. In between a word is where neither reading nor
// writing lets two threads of a warp meet in a bank of shared memory.
__global__ void __launch_bounds__(warp* warps, 4) transpose_kernel(TransposeCall call) {
  __shared__ unsigned words[tile][warp];
  const int lane = static_cast<int>(threadIdx.x) % warp, own = static_cast<int>(threadIdx.x) / warp;
  const std::int64_t matrix = blockIdx.z, first_row = std::int64_t{blockIdx.y} * tile;
  const std::int64_t first_column = std::int64_t{blockIdx.x} * tile;
  const auto column = first_column + lane * width;
  Quads quads;
  read(call, matrix, first_row + own * width, column, quads);
  const Columns columns(call.column_scales + matrix * call.columns + min(column, call.columns - width));
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const float scales[width] = {quads.scales[i].x, quads.scales[i].y, quads.scales[i].z, quads.scales[i].w};
#pragma unroll
    for (int j = 0; j < width; ++j) quads.bytes[i][j] = columns.rescaled(quads.bytes[i][j], scales[j]);
    transpose_bytes(quads.bytes[i]);
#pragma unroll
    for (int j = 0; j < width; ++j) words[lane * width + j][(i * warps + own) ^ lane] = quads.bytes[i][j];
  }
  __syncthreads();
  std::uint8_t* out = call.out + matrix * call.rows * call.columns;
  const auto row = first_row + lane * width;
  const auto across = static_cast<int>(min(std::int64_t{tile}, call.columns - first_column));
  if (row >= call.rows) return;
#pragma unroll 4
  for (int i = own; i < across; i += warps)
    *reinterpret_cast<unsigned*>(out + (first_column + i) * call.rows + row) = words[i][lane ^ (i / width)];
}

}  // namespace

void transpose(const TransposeCall& call, CUstream_st* stream) {
  const auto tiles = [](std::int64_t of) { return static_cast<unsigned>((of + tile - 1) / tile); };
  const dim3 grid(tiles(call.columns), tiles(call.rows), static_cast<unsigned>(call.matrices));
  transpose_kernel<<<grid, warp * warps, 0, stream>>>(call);
}

}  // namespace fp8
