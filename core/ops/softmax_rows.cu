#include "ops/cuda_float.cuh"

namespace capstan::ops::cuda {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / 32;
constexpr unsigned whole_warp = 0xffffffffu;

/// A maximum and the sum of exponentials below it.
struct Running {
  float maximum = -INFINITY;
  float sum = 0;
  __device__ void add(float x) {
    if (x > maximum) {
      sum = sum * expf(maximum - x) + 1.0F;
      maximum = x;
    } else {
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
    other.maximum = __shfl_down_sync(whole_warp, mine.maximum, distance);
    other.sum = __shfl_down_sync(whole_warp, mine.sum, distance);
    mine.add(other);
  }
  return mine;
}

/// One thread block a row. A logit that is not a number makes the sum none either.
__global__ void statistics(const float* logits, const std::int64_t* column, float* maximum, float* sum, float* picked,
                           std::int64_t columns) {
  const std::int64_t row = blockIdx.x;
  const float* const x = logits + row * columns;
  Running mine;
  bool is_bad = false;
  for (std::int64_t c = threadIdx.x; c < columns; c += threads) {
    const float value = x[c];
    is_bad = is_bad || isnan(value) || value == INFINITY;
    mine.add(value);
  }
  __shared__ Running of_warps[warps];
  __shared__ int bad;
  if (threadIdx.x == 0) bad = 0;
  __syncthreads();
  if (is_bad) bad = 1;
  mine = of_warp(mine);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
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

}  // namespace

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
  switch (of.type) {
    case FloatType::bfloat16:
      return launch(__nv_bfloat16{});
    case FloatType::half:
      return launch(__half{});
    default:
      return launch(float{});
  }
}

}  // namespace capstan::ops::cuda
