#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

// `out`: [rows, columns] forward, [rows, 2 columns] with a gradient.
void run(const at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x, const Maybe& bias, const Maybe& group,
         double limit, double slope) {
  if (out.numel() == 0) return;
  const at::Tensor biases = bias ? bias->contiguous() : at::Tensor();
  kernels::ClampedSwiglu call{};
  call.out = out.data_ptr();
  call.gradient = gradient.defined() ? gradient.const_data_ptr() : nullptr;
  call.x = x.const_data_ptr();
  call.bias = biases.defined() ? biases.const_data_ptr() : nullptr;
  call.group = group ? group->const_data_ptr<std::int64_t>() : nullptr;
  call.type = float_type(x);
  call.rows = x.size(0);
  call.columns = x.size(1) / 2;
  call.limit = limit;
  call.slope = slope;
  launch(kernels::clamped_swiglu, call);
}

at::Tensor forward_cuda(const at::Tensor& x, const Maybe& bias, const Maybe& group, double limit, double slope) {
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty({x.size(0), x.size(1) / 2}, x.options());
  run(out, {}, x.contiguous(), bias, group, limit, slope);
  return out;
}

at::Tensor backward_cuda(const at::Tensor& gradient, const at::Tensor& x, const Maybe& bias, const Maybe& group,
                         double limit, double slope) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  run(out, gradient.contiguous(), in, bias, group, limit, slope);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("clamped_swiglu", &forward_cuda);
  m.impl("clamped_swiglu_backward", &backward_cuda);
}

}  // namespace capstan::ops::cuda
