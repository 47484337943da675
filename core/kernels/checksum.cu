#include <capstan/kernels/tensor_blocks.h>

#include "kernel.cuh"
#include "kernels/block_sum.h"
#include "kernels/checksum_term.h"

namespace capstan::kernels {
namespace {

template <class Word>
__device__ std::uint64_t terms(const void* data, const TensorPart& part) {
  const Word* const words = static_cast<const Word*>(data);
  std::uint64_t sum = 0;
  for (std::int64_t i = threadIdx.x; i < part.count; i += sum_lanes) {
    sum += checksum_term(words[part.begin + i], part.begin + i);
  }
  return sum;
}

/// Integers: the order in which blocks add does not change the sum.
__global__ void add_checksums(const __grid_constant__ NormList list, unsigned long long* out) {
  const TensorPart part = part_of(list, blockIdx.x, sum_block);
  const void* const data = list.data[part.tensor];
  std::uint64_t sum = 0;
  switch (list.type[part.tensor]) {
    case FloatType::float64:
      sum = terms<std::uint64_t>(data, part);
      break;
    case FloatType::float32:
      sum = terms<std::uint32_t>(data, part);
      break;
    case FloatType::bfloat16:
    case FloatType::half:
      sum = terms<std::uint16_t>(data, part);
      break;
  }
  sum = sum_of_lanes(sum);
  if (threadIdx.x % warp == 0) {
    atomicAdd(out + part.tensor, static_cast<unsigned long long>(sum));
  }
}

}  // namespace

void add_checksums(const NormList& list, std::int64_t* out, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(list.first_block[list.count]);
  if (blocks > 0) {
    add_checksums<<<blocks, sum_lanes, 0, stream>>>(list, reinterpret_cast<unsigned long long*>(out));
  }
}

}  // namespace capstan::kernels
