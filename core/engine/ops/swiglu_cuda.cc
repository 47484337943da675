#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

at::Tensor swiglu_cuda(const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous();
  auto shape = in.sizes().vec();
  const auto columns = shape.back() /= 2;
  at::Tensor out = at::empty(shape, in.options());
  if (out.numel() == 0) return out;
  launch(kernels::swiglu, out.data_ptr(), in.const_data_ptr(), float_type(in), out.numel() / columns, columns);
  return out;
}

at::Tensor swiglu_gradient(const at::Tensor& gradient, const at::Tensor& x, bool again) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  if (out.numel() == 0) return out;
  const auto columns = in.size(-1) / 2;
  launch(kernels::swiglu_backward, kernels::SwigluBackward{out.data_ptr(), gradient.data_ptr(), in.const_data_ptr(),
                                                           float_type(in), gradient.numel() / columns, columns, again});
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("swiglu", &swiglu_cuda);
  m.impl("swiglu_backward", [](const at::Tensor& gradient, const at::Tensor& x) {
    return swiglu_gradient(gradient.contiguous(), x, false);
  });
  m.impl("swiglu_both_",
         [](const at::Tensor& gradient, const at::Tensor& x) { return swiglu_gradient(gradient, x, true); });
}

}  // namespace capstan::ops::cuda
