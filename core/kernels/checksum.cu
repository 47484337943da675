#include "kernels/block_sum.h"
#include "kernels/checksum_term.h"
#include "kernels/launchers.h"

namespace capstan::kernels {
namespace {

template <class Word>
__device__ std::uint64_t terms(const void* data, std::int64_t begin, std::int64_t count) {
  const Word* const words = static_cast<const Word*>(data);
  std::uint64_t sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += sum_lanes) {
    sum += checksum_term(words[begin + i], begin + i);
  }
  return sum;
}

/// Integers: the order in which blocks add does not change the sum.
__global__ void add_checksums(NormList list, unsigned long long* out) {
  const std::int64_t block = blockIdx.x;
  int tensor = 0;
  while (list.first_block[tensor + 1] <= block) {
    ++tensor;
  }
  const std::int64_t begin = (block - list.first_block[tensor]) * sum_block;
  const std::int64_t rest = list.numel[tensor] - begin, count = rest < sum_block ? rest : sum_block;
  const void* const data = list.data[tensor];
  std::uint64_t sum = 0;
  switch (list.type[tensor]) {
    case FloatType::float64:
      sum = terms<std::uint64_t>(data, begin, count);
      break;
    case FloatType::float32:
      sum = terms<std::uint32_t>(data, begin, count);
      break;
    case FloatType::bfloat16:
    case FloatType::half:
      sum = terms<std::uint16_t>(data, begin, count);
      break;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(out + tensor, static_cast<unsigned long long>(sum));
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
