#include "ops/add_norm.h"
#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

bool takes_norm(const at::Tensor& x, const Maybe& other, const at::Tensor& weight) {
  return x.numel() > 0 && norm_fits(float_type(x), x.size(-1)) && is_packed(x) && is_packed(weight) &&
         (!other || is_packed(*other));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_norm_cuda(const at::Tensor& x_any, const Maybe& y_any,
                                                                         const at::Tensor& weight, const Maybe& bias,
                                                                         double epsilon, bool adds_one) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const at::Tensor x = x_any.contiguous();
  const Maybe y = y_any ? Maybe(y_any->contiguous()) : std::nullopt;
  if (!takes_norm(x, y, weight) || (bias && !is_packed(*bias)))
    return plain_add_norm(x, y, weight, bias, epsilon, adds_one);
  const at::Tensor sum = y ? at::empty_like(x) : at::Tensor(), out = at::empty_like(x);
  const at::Tensor mean = bias ? row_numbers(x) : at::Tensor(), rstd = row_numbers(x);
  const kernels::NormCall call{x.const_data_ptr(),
                               data_of(y),
                               weight.const_data_ptr(),
                               data_of(bias),
                               y ? sum.data_ptr() : nullptr,
                               out.data_ptr(),
                               bias ? mean.data_ptr() : nullptr,
                               rstd.data_ptr(),
                               float_type(x),
                               rstd.numel(),
                               static_cast<int>(x.size(-1)),
                               epsilon,
                               adds_one};
  launch(kernels::add_norm, call);
  return {sum, out, mean, rstd};
}

at::Tensor add_norm_backward_cuda(const Maybe& residual_any, const at::Tensor& normed_any, const at::Tensor& sum_any,
                                  const Maybe& mean, const at::Tensor& rstd, const at::Tensor& weight, bool adds_one) {
  const c10::cuda::CUDAGuard guard(sum_any.device());
  const at::Tensor normed = normed_any.contiguous(), sum = sum_any.contiguous();
  const Maybe residual = residual_any ? Maybe(residual_any->contiguous()) : std::nullopt;
  if (!takes_norm(sum, residual, weight) || !is_packed(normed))
    return plain_add_norm_backward(residual, normed, sum, mean, rstd, weight, adds_one);
  at::Tensor out = at::empty_like(sum);
  const kernels::NormBackward call{data_of(residual),
                                   normed.const_data_ptr(),
                                   sum.const_data_ptr(),
                                   weight.const_data_ptr(),
                                   data_of(mean),
                                   rstd.const_data_ptr(),
                                   out.data_ptr(),
                                   float_type(sum),
                                   rstd.numel(),
                                   static_cast<int>(sum.size(-1)),
                                   adds_one};
  launch(kernels::add_norm_backward, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("add_norm", &add_norm_cuda);
  m.impl("add_norm_backward", &add_norm_backward_cuda);
}

}  // namespace capstan::ops::cuda
