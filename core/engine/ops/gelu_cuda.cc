#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

at::Tensor gelu_of(const at::Tensor& x, void* gradient, bool tanh, bool again) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  if (out.numel() == 0) return out;
  launch(kernels::gelu,
         kernels::GeluCall{out.data_ptr(), gradient, in.const_data_ptr(), float_type(in), in.numel(), tanh, again});
  return out;
}

at::Tensor gelu_cuda(const at::Tensor& x, bool tanh) { return gelu_of(x, nullptr, tanh, false); }

at::Tensor gelu_backward_cuda(const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
  return gelu_of(x, gradient.contiguous().data_ptr(), tanh, false);
}

at::Tensor gelu_both_cuda(const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
  return gelu_of(x, gradient.data_ptr(), tanh, true);
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("gelu", &gelu_cuda);
  m.impl("gelu_backward", &gelu_backward_cuda);
  m.impl("gelu_both_", &gelu_both_cuda);
}

}  // namespace capstan::ops::cuda
