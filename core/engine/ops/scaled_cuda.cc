#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

at::Tensor scaled_cuda(const at::Tensor& x, const at::Tensor& factor, at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = is_packed(x) ? x : x.clone();
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(type));
  if (x.numel() == 0) return out;
  launch(kernels::scaled, out.data_ptr(), float_type(out), in.const_data_ptr<float>(), factor.const_data_ptr<float>(),
         x.numel());
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("scaled", &scaled_cuda); }

}  // namespace capstan::ops::cuda
