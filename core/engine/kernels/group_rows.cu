#include "kernels/kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / 32;
constexpr int items = 8;  // neighbouring rows that a thread looks at together

/// The sum of the values of all lanes up to and with this one, one value a lane.
__device__ int warp_sums(int value) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(all_lanes, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}

struct BlockSum {
  int before;  ///< the sum over the threads before this one
  int all;
};

__device__ BlockSum block_sum(int value) {
  __shared__ int of_warps[warps];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int here = warp_sums(value);
  if (lane == 31) of_warps[warp] = here;
  __syncthreads();
  if (warp == 0) of_warps[lane] = warp_sums(of_warps[lane]);
  __syncthreads();
  const BlockSum sum{(warp == 0 ? 0 : of_warps[warp - 1]) + here - value, of_warps[warps - 1]};
  __syncthreads();  // the next sum writes there
  return sum;
}

/// A thread block a group: it counts the rows of earlier groups, and then gives its own their places in order.
__global__ void give_places(GroupRowsCall call) {
  const std::int64_t group = blockIdx.x;
  int earlier = 0, own = 0;
  for (std::int64_t i = threadIdx.x; i < call.rows; i += threads) {
    const std::int64_t key = call.group[i];
    earlier += key < group ? 1 : 0;
    own += key == group ? 1 : 0;
  }
  std::int64_t next = block_sum(earlier).all;
  const int count = block_sum(own).all;
  if (threadIdx.x == 0) call.counts[group] = count;
  for (std::int64_t begin = 0; begin < call.rows; begin += threads * items) {
    const std::int64_t first = begin + std::int64_t{threadIdx.x} * items;
    unsigned found = 0;
#pragma unroll
    for (int j = 0; j < items; ++j) {
      if (first + j < call.rows && call.group[first + j] == group) found |= 1u << j;
    }
    const BlockSum sum = block_sum(__popc(found));
    std::int64_t place = next + sum.before;
#pragma unroll
    for (int j = 0; j < items; ++j) {
      if ((found >> j & 1u) == 0) continue;
      call.order[place] = first + j;
      call.place[first + j] = place;
      ++place;
    }
    next += sum.all;
  }
}

}  // namespace

void group_rows(const GroupRowsCall& call, CUstream_st* stream) {
  give_places<<<static_cast<unsigned>(call.groups), threads, 0, stream>>>(call);
}

}  // namespace capstan::kernels
