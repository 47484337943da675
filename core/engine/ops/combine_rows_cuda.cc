#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

at::Tensor combine_rows_cuda(const at::Tensor& rows, const at::Tensor& place, const Maybe& weights,
                             std::int64_t copies) {
  const c10::cuda::CUDAGuard guard(rows.device());
  at::Tensor out = at::empty({place.numel() / copies, rows.size(1)}, rows.options());
  if (out.numel() == 0) return out;
  const kernels::CombineCall call{rows.const_data_ptr(), place.const_data_ptr<std::int64_t>(),
                                  data_of(weights),      out.data_ptr(),
                                  float_type(rows),      out.size(0),
                                  rows.size(1),          static_cast<int>(copies)};
  launch(kernels::combine_rows, call);
  return out;
}

std::tuple<at::Tensor, at::Tensor> combine_rows_backward_cuda(const at::Tensor& gradient, const at::Tensor& rows,
                                                              const at::Tensor& order, const at::Tensor& weights) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const at::Tensor of_rows = at::empty_like(rows), of_weights = at::empty_like(weights);
  if (rows.numel() == 0) return {of_rows, of_weights.zero_()};
  const kernels::CombineBackward call{gradient.const_data_ptr(),
                                      rows.const_data_ptr(),
                                      order.const_data_ptr<std::int64_t>(),
                                      weights.const_data_ptr(),
                                      of_rows.data_ptr(),
                                      of_weights.data_ptr(),
                                      float_type(rows),
                                      rows.size(0),
                                      rows.size(1),
                                      static_cast<int>(weights.size(1))};
  launch(kernels::combine_rows_backward, call);
  return {of_rows, of_weights};
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("combine_rows", &combine_rows_cuda);
  m.impl("combine_rows_backward", &combine_rows_backward_cuda);
}

}  // namespace capstan::ops::cuda
