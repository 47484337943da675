#include <capstan/kernels/tensor_blocks.h>

#include "kernel.cuh"
#include "kernels/block_sum.h"

namespace capstan::kernels {
namespace {

constexpr int warps = 8;                // warps of a thread block; each adds up one block of norm.h
constexpr int held = sum_lanes / warp;  // lanes of a thread
constexpr int rows = sum_block / sum_lanes;
constexpr int rows_at_once = 4;  // read before the first of their numbers is added

/// The tree over the lanes of a warp, in its first thread. sums[pack · width + k] is of lane
/// (pack · 32 + thread) · width + k, so what the tree adds is in one thread or a shuffle away.
template <int width>
__device__ double tree_sum(double (&sums)[held]) {
#pragma unroll
  for (int distance = held / 2; distance >= width; distance /= 2) {
#pragma unroll
    for (int i = 0; i < distance; ++i) sums[i] = __dadd_rn(sums[i], sums[i + distance]);
  }
#pragma unroll
  for (int distance = warp / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int k = 0; k < width; ++k) sums[k] = __dadd_rn(sums[k], __shfl_down_sync(all_lanes, sums[k], distance));
  }
#pragma unroll
  for (int distance = width / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int k = 0; k < distance; ++k) sums[k] = __dadd_rn(sums[k], sums[k + distance]);
  }
  return sums[0];
}

/// Up to sum_block squares, read in packs of `width`; `count` is a multiple of that. A zero for a number that is not
/// there changes no sum.
template <class T, int width>
__device__ double squares(const T* x, int count) {
  constexpr int packs = held / width;
  const int thread = static_cast<int>(threadIdx.x) % warp;
  double sums[held] = {};
  for (int first = 0; first < rows; first += rows_at_once) {
    Packed<T, width> read[rows_at_once][packs] = {};
#pragma unroll
    for (int row = 0; row < rows_at_once; ++row) {
#pragma unroll
      for (int pack = 0; pack < packs; ++pack) {
        const int i = (first + row) * sum_lanes + (pack * warp + thread) * width;
        if (i < count) read[row][pack] = *reinterpret_cast<const Packed<T, width>*>(x + i);
      }
    }
#pragma unroll
    for (int row = 0; row < rows_at_once; ++row) {
#pragma unroll
      for (int i = 0; i < held; ++i) {
        const auto element = static_cast<double>(Float<T>::load(read[row][i / width].value[i % width]));
        sums[i] = __dadd_rn(sums[i], __dmul_rn(element, element));
      }
    }
  }
  return tree_sum<width>(sums);
}

template <class T>
__device__ double squares(const void* data, const TensorPart& part) {
  constexpr int width = 16 / sizeof(T);
  const T* const x = static_cast<const T*>(data) + part.begin;
  const auto count = static_cast<int>(part.count);
  const bool wide = is_aligned(x) && count % width == 0;
  return wide ? squares<T, width>(x, count) : squares<T, 1>(x, count);
}

__global__ void block_sums(const __grid_constant__ NormList list, double* sums) {
  const std::int64_t block = std::int64_t{blockIdx.x} * warps + threadIdx.x / warp;
  if (block >= list.first_block[list.count]) return;
  const TensorPart part = part_of(list, block, sum_block);
  const void* const data = list.data[part.tensor];
  double sum = 0;
  with_type(list.type[part.tensor], [&](auto zero) { sum = squares<decltype(zero)>(data, part); });
  if (threadIdx.x % warp == 0) {
    sums[block] = sum;
  }
}

/// One thread block of sum_lanes threads a tensor, in the same order.
__global__ void tensor_sums(const __grid_constant__ NormList list, const double* sums, double* out) {
  __shared__ double lanes[sum_lanes];
  const int tensor = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const double* const mine = sums + list.first_block[tensor];
  const std::int64_t count = list.first_block[tensor + 1] - list.first_block[tensor];
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = thread; i < count; i += sum_lanes) {
    sum = __dadd_rn(sum, mine[i]);
  }
  lanes[thread] = sum;
  __syncthreads();
  if (thread >= warp) return;
  double of_warp[held];
  for (int i = 0; i < held; ++i) of_warp[i] = lanes[i * warp + thread];
  sum = tree_sum<1>(of_warp);
  if (thread == 0) {
    out[tensor] = sum;
  }
}

}  // namespace

void squared_norms(const NormList& list, double* sums, double* out, CUstream_st* stream) {
  const auto blocks = list.first_block[list.count];
  if (blocks > 0) {
    block_sums<<<static_cast<unsigned>(parts_of(blocks, warps)), warps * warp, 0, stream>>>(list, sums);
  }
  tensor_sums<<<static_cast<unsigned>(list.count), sum_lanes, 0, stream>>>(list, sums, out);
}

}  // namespace capstan::kernels
