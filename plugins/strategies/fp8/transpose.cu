#include "transpose.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <capstan/kernels/warps.cuh>

namespace fp8 {
namespace {

using capstan::kernels::warp;

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
__device__ float4 inverse_of(const float* scales) {
  const float4 of = *reinterpret_cast<const float4*>(scales);
  return make_float4(1 / of.x, 1 / of.y, 1 / of.z, 1 / of.w);
}

struct Quads {
  unsigned bytes[rounds][width];
  float scales[rounds][width];
};

// Reads a thread's columns of the rows that its warp has in a block's part.
__device__ void read(const TransposeCall& call, std::int64_t matrix, std::int64_t first_row, std::int64_t column,
                     Quads& quads) {
  const std::int64_t first = matrix * call.rows;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const auto row = first_row + i * warps * width;
    const bool inside = column < call.columns && row < call.rows;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const auto at = first + row + j;
      quads.bytes[i][j] = inside ? *reinterpret_cast<const unsigned*>(call.in + at * call.columns + column) : 0;
      quads.scales[i][j] = inside ? call.row_scales[at] : 0;
    }
  }
}

// A warp reads whole lines of a row, and writes whole lines of a column. In between a word is where neither reading nor
// writing lets two threads of a warp meet in a bank of shared memory.
__global__ void transpose_kernel(TransposeCall call) {
  __shared__ unsigned words[tile][warp];
  const int lane = static_cast<int>(threadIdx.x) % warp, own = static_cast<int>(threadIdx.x) / warp;
  const std::int64_t matrix = blockIdx.z, first_row = std::int64_t{blockIdx.y} * tile;
  const std::int64_t first_column = std::int64_t{blockIdx.x} * tile;
  const auto column = first_column + lane * width;
  Quads quads;
  read(call, matrix, first_row + own * width, column, quads);
  const float4 inverse =
      column < call.columns ? inverse_of(call.column_scales + matrix * call.columns + column) : make_float4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
#pragma unroll
    for (int j = 0; j < width; ++j) quads.bytes[i][j] = rescaled(quads.bytes[i][j], quads.scales[i][j], inverse);
    transpose_bytes(quads.bytes[i]);
#pragma unroll
    for (int j = 0; j < width; ++j) words[lane * width + j][(i * warps + own) ^ lane] = quads.bytes[i][j];
  }
  __syncthreads();
  std::uint8_t* out = call.out + matrix * call.rows * call.columns;
  const auto row = first_row + lane * width;
  const auto columns = static_cast<int>(min(std::int64_t{tile}, call.columns - first_column));
  if (row >= call.rows) return;
#pragma unroll 4
  for (int i = own; i < columns; i += warps)
    *reinterpret_cast<unsigned*>(out + (first_column + i) * call.rows + row) = words[i][lane ^ (i / width)];
}

}  // namespace

void transpose(const TransposeCall& call, CUstream_st* stream) {
  const auto tiles = [](std::int64_t of) { return static_cast<unsigned>(capstan::kernels::parts_of(of, tile)); };
  const dim3 grid(tiles(call.columns), tiles(call.rows), static_cast<unsigned>(call.matrices));
  transpose_kernel<<<grid, warp * warps, 0, stream>>>(call);
}

}  // namespace fp8
