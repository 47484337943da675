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

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("gelu", [](const at::Tensor& x, bool tanh) { return gelu_of(x, nullptr, tanh, false); });
  m.impl("gelu_backward", [](const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
    return gelu_of(x, gradient.contiguous().data_ptr(), tanh, false);
  });
  m.impl("gelu_both_", [](const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
    return gelu_of(x, gradient.data_ptr(), tanh, true);
  });
}

}  // namespace capstan::ops::cuda
