#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

// A stable sort, so that rows of one id stay in their order.
void add_rows_cuda(const at::Tensor& to, const at::Tensor& ids, const at::Tensor& rows, std::int64_t first) {
  const c10::cuda::CUDAGuard guard(to.device());
  const auto [sorted, order] = at::sort(ids, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const kernels::RowsCall call{to.data_ptr(),
                               float_type(to),
                               to.size(0),
                               first,
                               sorted.const_data_ptr<std::int64_t>(),
                               order.const_data_ptr<std::int64_t>(),
                               ids.numel(),
                               rows.const_data_ptr(),
                               float_type(rows),
                               to.size(1)};
  launch(kernels::add_table_rows, call);
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("add_rows_", &add_rows_cuda); }

}  // namespace capstan::ops::cuda
