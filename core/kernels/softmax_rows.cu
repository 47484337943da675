#include <cooperative_groups.h>

#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / 32;

/// A maximum and the sum of exponentials below it. No default values: it lies in shared memory too.
struct Running {
  float maximum, sum;
  __device__ void add(float x) {
    if (x > maximum) {
      sum = sum * expf(maximum - x) + 1.0F;
      maximum = x;
    } else if (x > -INFINITY) {
      sum += expf(x - maximum);
    }
  }
  __device__ void add(const Running& other) {
    if (other.maximum == -INFINITY && other.sum == 0) return;
    const float larger = fmaxf(maximum, other.maximum);
    sum = (maximum == -INFINITY && sum == 0 ? 0.0F : sum * expf(maximum - larger)) +
          other.sum * expf(other.maximum - larger);
    maximum = larger;
  }
};

__device__ Running of_warp(Running mine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    Running other;
    other.maximum = __shfl_down_sync(all_lanes, mine.maximum, distance);
    other.sum = __shfl_down_sync(all_lanes, mine.sum, distance);
    mine.add(other);
  }
  return mine;
}

/// One thread block a row. A logit that is not a number makes the sum none either.
__global__ void statistics(const float* logits, const std::int64_t* column, float* maximum, float* sum, float* picked,
                           std::int64_t columns) {
  const std::int64_t row = blockIdx.x;
  const float* const x = logits + row * columns;
  Running mine{-INFINITY, 0};
  bool is_bad = false;
  for (std::int64_t c = threadIdx.x; c < columns; c += threads) {
    const float value = x[c];
    is_bad = is_bad || isnan(value) || value == INFINITY;
    mine.add(value);
  }
  __shared__ Running of_warps[warps];
  mine = of_warp(mine);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  const bool bad = __syncthreads_or(is_bad ? 1 : 0) != 0;
  if (threadIdx.x >= 32) return;
  mine = of_warp(of_warps[threadIdx.x]);
  if (threadIdx.x == 0) {
    const std::int64_t at = column[row];
    maximum[row] = mine.maximum;
    sum[row] = bad ? NAN : mine.sum;
    picked[row] = at >= 0 && at < columns ? x[at] : 0.0F;
  }
}

/// One thread block a row, in place: what a round of the block writes lies before what later rounds read, since an
/// element of the result is no wider than a logit.
template <class T>
__global__ void gradient(float* logits, const float* maximum, const float* sum, const std::int64_t* column, float scale,
                         std::int64_t columns) {
  const std::int64_t row = blockIdx.x;
  const float* const x = logits + row * columns;
  T* const out = reinterpret_cast<T*>(logits + row * columns);
  const float largest = maximum[row], factor = scale / sum[row];
  const std::int64_t at = column[row];
  for (std::int64_t begin = 0; begin < columns; begin += 4 * threads) {
    float values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t c = begin + i * threads + threadIdx.x;
      values[i] = c < columns ? x[c] : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t c = begin + i * threads + threadIdx.x;
      if (c < columns) {
        const float softmax = expf(values[i] - largest) * factor;
        out[c] = Float<T>::store(c == at ? softmax - scale : softmax);
      }
    }
  }
}

/// What a thread keeps of a row: packs of four logits, `held` of them.
constexpr int held = 8;
constexpr int pack = 4;

/// The sums of a row from those of the cluster's thread blocks, each from its threads', in the same order everywhere.
/// Without a user below compute capability 9.0, which has no clusters.
[[maybe_unused]] __device__ Running of_cluster(Running mine, Running* of_warps, Running* of_block, Running* of_row) {
#if __CUDA_ARCH__ >= 900
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const auto lane = threadIdx.x % 32;
  const Running none{-INFINITY, 0};
  mine = of_warp(mine);
  if (lane == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < 32) {
    mine = of_warp(lane < blockDim.x / 32 ? of_warps[lane] : none);
    if (lane == 0) *of_block = mine;
  }
  cluster.sync();  // every block has its sums, and has read all that it will overwrite
  if (threadIdx.x < 32) {
    mine = of_warp(lane < cluster.num_blocks() ? *cluster.map_shared_rank(of_block, lane) : none);
    if (lane == 0) *of_row = mine;
  }
  __syncthreads();
#endif
  return *of_row;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/// What a thread keeps of a row's `packs`: those at first, first + stride, ...
struct Kept {
  Packed<float, pack> x[held];
  int first, stride, packs;

  __device__ void read(const float* logits) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      const int p = first + i * stride;
      if (p < packs) {
        x[i] = reinterpret_cast<const Packed<float, pack>*>(logits)[p];
      } else {
        for (float& value : x[i].value) value = -INFINITY;
      }
    }
  }

  /// Puts the exponentials in the logits' place.
  __device__ Running exponentials() {
    Running mine{-INFINITY, 0};
#pragma unroll
    for (int i = 0; i < held; ++i) {
      for (const float value : x[i].value) mine.maximum = fmaxf(mine.maximum, value);
    }
    const float from = mine.maximum == -INFINITY ? 0.0F : mine.maximum;
#pragma unroll
    for (int i = 0; i < held; ++i) {
      for (float& value : x[i].value) mine.sum += value = __expf(value - from);
    }
    return mine;
  }

  template <class T>
  __device__ void write(T* out, float factor, float scale, int target) const {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      const int p = first + i * stride;
      Packed<T, pack> result;
#pragma unroll
      for (int j = 0; j < pack; ++j) {
        const float softmax = x[i].value[j] * factor;
        result.value[j] = Float<T>::store(p * pack + j == target ? softmax - scale : softmax);
      }
      if (p < packs) reinterpret_cast<Packed<T, pack>*>(out)[p] = result;
    }
  }
};

#endif

constexpr int most_threads = 512;  // two thread blocks on a multiprocessor: one reads while the other adds up

/// A cluster of thread blocks a row, which stays in their registers between its sums and its gradient, in place.
template <class T>
__global__ __launch_bounds__(most_threads, 2) void whole_rows(SoftmaxRows rows, float* losses, float scale) {
#if __CUDA_ARCH__ >= 900
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const std::int64_t row = blockIdx.x / cluster.num_blocks(), column = rows.column[row];
  float* const logits = rows.logits + row * rows.columns;
  T* const out = reinterpret_cast<T*>(logits);
  Kept mine;
  mine.first = static_cast<int>(cluster.block_rank() * blockDim.x + threadIdx.x);
  mine.stride = static_cast<int>(cluster.num_blocks() * blockDim.x);
  mine.packs = static_cast<int>(rows.columns / pack);
  if (column < 0 || column >= rows.columns) {  // no row of a target: nothing is read
    for (int p = mine.first; p < mine.packs; p += mine.stride) reinterpret_cast<Packed<T, pack>*>(out)[p] = {};
    if (mine.first == 0) losses[row] = 0;
    return;
  }
  const float picked = mine.first == 0 ? logits[column] : 0.0F;
  mine.read(logits);
  const Running own = mine.exponentials();
  __shared__ Running of_warps[most_threads / 32], of_block, of_row;
  const Running all = of_cluster(own, of_warps, &of_block, &of_row);
  cluster.barrier_arrive();
  mine.write(out, __expf(own.maximum - all.maximum) * (scale / all.sum), scale, static_cast<int>(column));
  if (mine.first == 0) losses[row] = logf(all.sum) - (picked - all.maximum);
  cluster.barrier_wait();  // others may still read this block's sums
#endif
}

/// body(T{}) with the gradient's number type, which is no wider than a logit.
template <class Body>
void with_gradient_of(FloatType type, const Body& body) {
  with_type(type, [&](auto zero) {
    if constexpr (sizeof(zero) <= sizeof(float)) body(zero);
  });
}

/// How a row is shared: by as few thread blocks as can hold it.
struct Sharing {
  explicit Sharing(std::int64_t columns) {
    constexpr std::int64_t warp = 32, of_thread = held * pack;
    while (blocks * most_threads * of_thread < columns) blocks *= 2;
    const auto each = (columns + blocks * of_thread - 1) / (blocks * of_thread);
    threads = static_cast<unsigned>((each + warp - 1) / warp * warp);
  }
  std::int64_t blocks = 1;
  unsigned threads;
};

template <class T>
void launch_whole_rows(const SoftmaxRows& rows, float* losses, float scale, CUstream_st* stream) {
  const Sharing by(rows.columns);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(by.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(rows.rows * by.blocks);
  config.blockDim = by.threads;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cudaFuncSetAttribute(whole_rows<T>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  cudaLaunchKernelEx(&config, whole_rows<T>, rows, losses, scale);
}

}  // namespace

bool takes_whole_rows(const SoftmaxRows& rows) {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  const std::int64_t most_blocks = major == 9 || major == 10 ? 16 : 8;  // a cluster's; 8 on every GPU that has them
  return major >= 9 && rows.columns % pack == 0 && Sharing(rows.columns).blocks <= most_blocks &&
         is_aligned(rows.logits);
}

void softmax_whole_rows(const SoftmaxRows& rows, FloatType type, float scale, float* losses, CUstream_st* stream) {
  with_gradient_of(type, [&](auto zero) { launch_whole_rows<decltype(zero)>(rows, losses, scale, stream); });
}

void softmax_statistics(const SoftmaxRows& rows, float* maximum, float* sum, float* picked, CUstream_st* stream) {
  statistics<<<static_cast<unsigned>(rows.rows), threads, 0, stream>>>(rows.logits, rows.column, maximum, sum, picked,
                                                                       rows.columns);
}

void softmax_gradient(const SoftmaxRows& rows, const SoftmaxGradient& of, CUstream_st* stream) {
  const auto grid = static_cast<unsigned>(rows.rows);
  const auto launch = [&](auto zero) {
    using T = decltype(zero);
    gradient<T><<<grid, threads, 0, stream>>>(rows.logits, of.maximum, of.sum, rows.column, of.scale, rows.columns);
  };
  with_gradient_of(of.type, launch);
}

}  // namespace capstan::kernels
