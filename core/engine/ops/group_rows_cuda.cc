#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_rows_cuda(const at::Tensor& group, std::int64_t groups) {
  const c10::cuda::CUDAGuard guard(group.device());
  const at::Tensor order = at::empty_like(group), place = at::empty_like(group);
  const at::Tensor counts = at::empty({groups}, group.options());
  launch(kernels::group_rows, kernels::GroupRowsCall{group.const_data_ptr<std::int64_t>(),
                                                     order.data_ptr<std::int64_t>(), place.data_ptr<std::int64_t>(),
                                                     counts.data_ptr<std::int64_t>(), group.numel(), groups});
  return {order, place, counts};
}

at::Tensor group_counts_cuda(const at::Tensor& group, std::int64_t groups) {
  const c10::cuda::CUDAGuard guard(group.device());
  const at::Tensor counts = at::empty({groups}, group.options());
  launch(kernels::group_rows, kernels::GroupRowsCall{group.const_data_ptr<std::int64_t>(), nullptr, nullptr,
                                                     counts.data_ptr<std::int64_t>(), group.numel(), groups});
  return counts;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("group_rows", &group_rows_cuda);
  m.impl("group_counts", &group_counts_cuda);
}

}  // namespace capstan::ops::cuda
