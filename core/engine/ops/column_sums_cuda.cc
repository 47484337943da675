#include <algorithm>

#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

/// Enough parts for a few thread blocks on each multiprocessor; each part has eight rows or more.
int column_parts(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t blocks = 528, tile = 256, fewest = 8;
  const auto tiles = (columns + tile - 1) / tile;
  return static_cast<int>(std::clamp<std::int64_t>(blocks / tiles, 1, std::max<std::int64_t>(1, rows / fewest)));
}

void sum_columns(kernels::ColumnCall call, const at::Tensor& x, const at::Tensor& parts) {
  call.x = x.const_data_ptr();
  call.parts = parts.data_ptr();
  call.type = float_type(x);
  call.columns = x.size(-1);
  call.rows = x.numel() / call.columns;
  call.count = static_cast<int>(parts.size(1));
  launch(kernels::column_sums, call);
}

at::Tensor parts_for(const at::Tensor& x, std::int64_t results) {
  const auto type = sum_type(x);
  return at::empty({results, column_parts(x.numel() / x.size(-1), x.size(-1)), x.size(-1)}, x.options().dtype(type));
}

at::Tensor column_sums_cuda(const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty({x.size(1)}, x.options());
  if (x.numel() == 0) return out.zero_();
  kernels::ColumnCall call{};
  call.out = out.data_ptr();
  sum_columns(call, x, parts_for(x, 1));
  return out;
}

std::tuple<at::Tensor, at::Tensor> norm_weight_sums_cuda(const at::Tensor& gradient, const at::Tensor& x,
                                                         const Maybe& mean, const at::Tensor& rstd) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto one = [&] { return at::empty({x.size(-1)}, x.options()); };
  const at::Tensor weight = one(), bias = mean ? one() : at::Tensor();
  if (x.numel() == 0) return {weight.zero_(), mean ? bias.zero_() : bias};
  kernels::ColumnCall call{};
  call.of = x.const_data_ptr();
  call.mean = data_of(mean);
  call.rstd = rstd.const_data_ptr();
  call.out = weight.data_ptr();
  call.second = mean ? bias.data_ptr() : nullptr;
  sum_columns(call, gradient, parts_for(x, mean ? 2 : 1));
  return {weight, bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("column_sums", &column_sums_cuda);
  m.impl("norm_weight_sums", &norm_weight_sums_cuda);
}

}  // namespace capstan::ops::cuda
