#include <capstan/kernels/tensor_blocks.h>

#include "kernel.cuh"
#include "kernels/block_sum.h"

namespace capstan::kernels {
namespace {

constexpr int width = 4;

template <class T>
using Four = Packed<T, width>;

template <class T>
__device__ void add(float* to, const T* from, int count) {
  if (is_aligned(to, sizeof(Four<float>)) && is_aligned(from, sizeof(Four<T>))) {
    auto* const wide = reinterpret_cast<Four<float>*>(to);
    const auto* const in = reinterpret_cast<const Four<T>*>(from);
    for (int i = threadIdx.x; i < count / width; i += sum_lanes) {
      Four<float> sum = wide[i];
      const Four<T> part = in[i];
#pragma unroll
      for (int k = 0; k < width; ++k) sum.value[k] = __fadd_rn(sum.value[k], Float<T>::load(part.value[k]));
      wide[i] = sum;
    }
    for (int i = count / width * width + threadIdx.x; i < count; i += sum_lanes) {
      to[i] = __fadd_rn(to[i], Float<T>::load(from[i]));
    }
  } else {
    for (int i = threadIdx.x; i < count; i += sum_lanes) {
      to[i] = __fadd_rn(to[i], Float<T>::load(from[i]));
    }
  }
}

__global__ void add_lists(const __grid_constant__ AddList list) {
  const auto [tensor, begin, count] = part_of(list.from, blockIdx.x, sum_block);
  float* const to = list.to[tensor] + begin;
  if (list.from.type[tensor] == FloatType::bfloat16) {
    add(to, static_cast<const __nv_bfloat16*>(list.from.data[tensor]) + begin, static_cast<int>(count));
  } else {
    add(to, static_cast<const __half*>(list.from.data[tensor]) + begin, static_cast<int>(count));
  }
}

}  // namespace

void add_lists(const AddList& list, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(list.from.first_block[list.from.count]);
  if (blocks > 0) {
    add_lists<<<blocks, sum_lanes, 0, stream>>>(list);
  }
}

}  // namespace capstan::kernels
