#include <algorithm>

#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / 32;
constexpr int most_items = 64;  // neighbouring rows that a thread looks at in a round, a bit each

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

/// Which of `items` rows from `first` on are the group's; adds to `earlier` how many are of earlier groups.
__device__ std::uint64_t own_of(const GroupRowsCall& call, std::int64_t first, int items, int& earlier) {
  const std::int64_t group = blockIdx.x;
  std::uint64_t own = 0;
  const auto look = [&](int item, std::int64_t key) {
    earlier += key < group ? 1 : 0;
    own |= std::uint64_t{key == group} << item;
  };
  if (first + items <= call.rows && is_aligned(call.group + first)) {
#pragma unroll 4
    for (int j = 0; j + 1 < items; j += 2) {
      const auto two = *reinterpret_cast<const longlong2*>(call.group + first + j);
      look(j, two.x);
      look(j + 1, two.y);
    }
    if (items % 2 != 0) look(items - 1, call.group[first + items - 1]);
  } else {
    for (int j = 0; j < items && first + j < call.rows; ++j) look(j, call.group[first + j]);
  }
  return own;
}

/// A thread block a group: it counts the rows of earlier groups, and then gives its own their places in order.
__global__ void give_places(GroupRowsCall call, int items) {
  const std::int64_t round = std::int64_t{threads} * items, mine = std::int64_t{threadIdx.x} * items;
  int earlier = 0, own = 0;
  std::uint64_t first_own = 0;  // a thread's rows of the first round, which often is the only one
  for (std::int64_t begin = 0; begin < call.rows; begin += round) {
    const std::uint64_t found = own_of(call, begin + mine, items, earlier);
    if (begin == 0) first_own = found;
    own += __popcll(found);
  }
  const int count = block_sum(own).all;
  if (threadIdx.x == 0) call.counts[blockIdx.x] = count;
  if (call.order == nullptr) return;
  std::int64_t next = block_sum(earlier).all;
  for (std::int64_t begin = 0; begin < call.rows; begin += round) {
    std::uint64_t found = begin == 0 ? first_own : own_of(call, begin + mine, items, earlier);
    const BlockSum sum = block_sum(__popcll(found));
    for (std::int64_t place = next + sum.before; found != 0; found &= found - 1, ++place) {
      const std::int64_t row = begin + mine + __ffsll(static_cast<long long>(found)) - 1;
      call.order[place] = row;
      call.place[row] = place;
    }
    next += sum.all;
  }
}

}  // namespace

void group_rows(const GroupRowsCall& call, CUstream_st* stream) {
  const auto items = std::clamp<std::int64_t>(parts_of(call.rows, threads), 1, most_items);
  give_places<<<static_cast<unsigned>(call.groups), threads, 0, stream>>>(call, static_cast<int>(items));
}

}  // namespace capstan::kernels
