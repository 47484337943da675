#include "kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int across = 32;  // packs of a thread block
constexpr int down = 8;     // rows that it reads at a time
constexpr int rows_of_parts = 32;

/// The sums of `down` threads above each other, written to the block's place in `parts`.
template <class Number, int width>
__device__ void write_part(const Number (&sum)[width], Number* parts, std::int64_t columns) {
  __shared__ Number tile[down][across * width];
  __syncthreads();  // an earlier tile has been read
#pragma unroll
  for (int j = 0; j < width; ++j) tile[threadIdx.y][threadIdx.x * width + j] = sum[j];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y) * across + static_cast<int>(threadIdx.x);
  const std::int64_t column = std::int64_t{blockIdx.x} * across * width + thread;
  if (thread >= across * width || column >= columns) return;
  Number total = 0;
  for (int y = 0; y < down; ++y) total += tile[y][thread];
  parts[blockIdx.y * columns + column] = total;
}

/// Parts of the sums of x, or with `statistics` those of x · (of - mean) · rstd and then those of x.
template <class T, int width, bool statistics>
__global__ void add_rows(const __grid_constant__ ColumnCall call) {
  using Number = typename Float<T>::Number;
  using Pack = Packed<T, width>;
  const std::int64_t packs = call.columns / width, c = std::int64_t{blockIdx.x} * across + threadIdx.x;
  Number sum[width] = {}, scaled[width] = {};
  const std::int64_t first = std::int64_t{blockIdx.y} * down + threadIdx.y, step = std::int64_t{gridDim.y} * down;
#pragma unroll 4
  for (std::int64_t row = c < packs ? first : call.rows; row < call.rows; row += step) {
    const Pack x = static_cast<const Pack*>(call.x)[row * packs + c];
    if (statistics) {
      const Pack of = static_cast<const Pack*>(call.of)[row * packs + c];
      const Number mean = call.mean != nullptr ? static_cast<const Number*>(call.mean)[row] : Number{0};
      const Number rstd = static_cast<const Number*>(call.rstd)[row];
#pragma unroll
      for (int j = 0; j < width; ++j) {
        scaled[j] += static_cast<Number>(Float<T>::load(x.value[j])) *
                     ((static_cast<Number>(Float<T>::load(of.value[j])) - mean) * rstd);
      }
    }
#pragma unroll
    for (int j = 0; j < width; ++j) sum[j] += static_cast<Number>(Float<T>::load(x.value[j]));
  }
  auto* const parts = static_cast<Number*>(call.parts);
  if (statistics) {
    write_part(scaled, parts, call.columns);
    if (call.mean != nullptr) write_part(sum, parts + gridDim.y * call.columns, call.columns);
  } else {
    write_part(sum, parts, call.columns);
  }
}

/// A column of thread blocks for each result.
template <class T>
__global__ void add_parts(const __grid_constant__ ColumnCall call, int count) {
  using Number = typename Float<T>::Number;
  __shared__ Number tile[rows_of_parts][across];
  const std::int64_t c = std::int64_t{blockIdx.x} * across + threadIdx.x;
  const auto* const parts = static_cast<const Number*>(call.parts) + std::int64_t{blockIdx.y} * count * call.columns;
  Number sum = 0;
  for (int part = static_cast<int>(threadIdx.y); part < count && c < call.columns; part += rows_of_parts)
    sum += parts[part * call.columns + c];
  tile[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= call.columns) return;
  for (int y = 1; y < rows_of_parts; ++y) sum += tile[y][threadIdx.x];
  static_cast<T*>(blockIdx.y == 0 ? call.out : call.second)[c] = Float<T>::store(sum);
}

template <class T, int width>
void launch(const ColumnCall& call, CUstream_st* stream) {
  const auto tiles = static_cast<unsigned>(parts_of(call.columns, across * width));
  const dim3 grid(tiles, static_cast<unsigned>(call.count)), block(across, down);
  const auto kernel = call.rstd != nullptr ? add_rows<T, width, true> : add_rows<T, width, false>;
  kernel<<<grid, block, 0, stream>>>(call);
  const dim3 last(static_cast<unsigned>(parts_of(call.columns, across)), call.second != nullptr ? 2 : 1);
  add_parts<T><<<last, dim3(across, rows_of_parts), 0, stream>>>(call, call.count);
}

}  // namespace

void column_sums(const ColumnCall& call, CUstream_st* stream) {
  with_pack(call.type, call.columns, {call.x, call.of},
            [&]<class T, int width>(Packed<T, width>, std::int64_t) { launch<T, width>(call, stream); });
}

}  // namespace capstan::kernels
