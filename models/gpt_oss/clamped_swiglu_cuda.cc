// The operators' CUDA side: tensors in, a launch out.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "kernels.h"
#include "operators.h"

namespace gpt_oss {
namespace {

namespace cuda = capstan::ops::cuda;

ClampedSwigluCall call_of(const at::Tensor& x, const Maybe& bias, const Maybe& group, double limit, double slope) {
  TORCH_CHECK(!bias || bias->is_contiguous(), "biases of a clamped gate lie side by side");
  ClampedSwigluCall call{};
  call.x = x.const_data_ptr();
  call.bias = bias ? bias->const_data_ptr() : nullptr;
  call.group = group ? group->const_data_ptr<std::int64_t>() : nullptr;
  call.type = cuda::float_type(x);
  call.rows = x.size(0);
  call.columns = x.size(1) / 2;
  call.limit = limit;
  call.slope = slope;
  return call;
}

at::Tensor forward_cuda(const at::Tensor& x, const Maybe& bias, const Maybe& group, double limit, double slope) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty({x.size(0), x.size(1) / 2}, x.options());
  if (out.numel() == 0) return out;
  auto call = call_of(in, bias, group, limit, slope);
  call.out = out.data_ptr();
  cuda::launch(clamped_swiglu_pass, call);
  return out;
}

at::Tensor backward_cuda(const at::Tensor& gradient, const at::Tensor& x, const Maybe& bias, const Maybe& group,
                         double limit, double slope) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), by = gradient.contiguous(), out = at::empty_like(in);
  if (out.numel() == 0) return out;
  auto call = call_of(in, bias, group, limit, slope);
  call.out = out.data_ptr();
  call.gradient = by.const_data_ptr();
  cuda::launch(clamped_swiglu_pass, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("clamped_swiglu", &forward_cuda);
  m.impl("clamped_swiglu_backward", &backward_cuda);
}

}  // namespace gpt_oss
