// The operator's CUDA side: tensors in, a launch out.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "transpose.h"

namespace fp8 {
namespace {

using capstan::ops::cuda::launch;

at::Tensor transposed_cuda(const at::Tensor& values, const at::Tensor& row_scales, const at::Tensor& column_scales) {
  const c10::cuda::CUDAGuard guard(values.device());
  auto shape = values.sizes().vec();
  std::swap(shape[shape.size() - 2], shape.back());
  at::Tensor out = at::empty(shape, values.options());
  if (values.numel() == 0) return out;
  TransposeCall call{};
  call.rows = values.size(-2);
  call.columns = values.size(-1);
  call.matrices = values.numel() / call.rows / call.columns;
  TORCH_CHECK(values.is_contiguous() && row_scales.is_contiguous() && column_scales.is_contiguous() &&
                  call.rows % 16 == 0 && call.columns % 16 == 0 && call.matrices < 65536,
              "fp8 transposes up to 65,535 matrices whose sizes are multiples of 16, contiguous");
  TORCH_CHECK(row_scales.numel() == call.matrices * call.rows && column_scales.numel() == call.matrices * call.columns,
              "each row and each column has a scale");
  call.in = static_cast<const std::uint8_t*>(values.const_data_ptr());
  call.row_scales = row_scales.const_data_ptr<float>();
  call.column_scales = column_scales.const_data_ptr<float>();
  call.out = static_cast<std::uint8_t*>(out.data_ptr());
  launch(transpose, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("fp8_transposed", &transposed_cuda); }

}  // namespace fp8
