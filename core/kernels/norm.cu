#include "kernels/block_sum.h"
#include "kernels/floats.cuh"

namespace capstan::kernels {
namespace {

/// Sum of value(0) ... value(count - 1) over one thread block of sum_lanes threads: lanes, then the tree. In thread 0.
template <class Value>
__device__ double lane_sum(std::int64_t count, const Value& value) {
  __shared__ double lanes[sum_lanes];
  const int lane = static_cast<int>(threadIdx.x);
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = lane; i < count; i += sum_lanes) {
    sum = __dadd_rn(sum, value(i));
  }
  lanes[lane] = sum;
  __syncthreads();
  for (int distance = sum_lanes / 2; distance > 0; distance /= 2) {
    if (lane < distance) {
      lanes[lane] = __dadd_rn(lanes[lane], lanes[lane + distance]);
    }
    __syncthreads();
  }
  return lanes[0];
}

template <class T>
__device__ double squares(const void* data, std::int64_t begin, std::int64_t count) {
  const T* const x = static_cast<const T*>(data) + begin;
  return lane_sum(count, [x](std::int64_t i) {
    const auto element = static_cast<double>(Float<T>::load(x[i]));
    return __dmul_rn(element, element);
  });
}

__global__ void block_sums(NormList list, double* sums) {
  const std::int64_t block = blockIdx.x;
  int tensor = 0;
  while (list.first_block[tensor + 1] <= block) {
    ++tensor;
  }
  const std::int64_t begin = (block - list.first_block[tensor]) * sum_block;
  const std::int64_t rest = list.numel[tensor] - begin, count = rest < sum_block ? rest : sum_block;
  const void* const data = list.data[tensor];
  double sum = 0;
  switch (list.type[tensor]) {
    case FloatType::float64:
      sum = squares<double>(data, begin, count);
      break;
    case FloatType::float32:
      sum = squares<float>(data, begin, count);
      break;
    case FloatType::bfloat16:
      sum = squares<__nv_bfloat16>(data, begin, count);
      break;
    case FloatType::half:
      sum = squares<__half>(data, begin, count);
      break;
  }
  if (threadIdx.x == 0) {
    sums[block] = sum;
  }
}

/// One thread block a tensor.
__global__ void tensor_sums(NormList list, const double* sums, double* out, bool accumulate) {
  const int tensor = static_cast<int>(blockIdx.x);
  const double* const mine = sums + list.first_block[tensor];
  const double sum =
      lane_sum(list.first_block[tensor + 1] - list.first_block[tensor], [mine](std::int64_t i) { return mine[i]; });
  if (threadIdx.x == 0) {
    out[tensor] = accumulate ? __dadd_rn(out[tensor], sum) : sum;
  }
}

}  // namespace

void squared_norms(const NormList& list, double* sums, double* out, bool accumulate, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(list.first_block[list.count]);
  if (blocks > 0) {
    block_sums<<<blocks, sum_lanes, 0, stream>>>(list, sums);
  }
  tensor_sums<<<static_cast<unsigned>(list.count), sum_lanes, 0, stream>>>(list, sums, out, accumulate);
}

}  // namespace capstan::kernels
