#include <limits>

#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

kernels::SoftmaxRows rows_of(const at::Tensor& logits, const at::Tensor& column) {
  return {logits.data_ptr<float>(), column.const_data_ptr<std::int64_t>(), logits.size(0), logits.size(1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> softmax_statistics_cuda(const at::Tensor& logits,
                                                                       const at::Tensor& column) {
  const c10::cuda::CUDAGuard guard(logits.device());
  const auto one = [&] { return at::empty({logits.size(0), 1}, logits.options()); };
  const at::Tensor maximum = one(), sum = one(), picked = one();
  if (logits.size(0) > 0) {
    launch(kernels::softmax_statistics, rows_of(logits, column), maximum.data_ptr<float>(), sum.data_ptr<float>(),
           picked.data_ptr<float>());
  }
  return {maximum, sum, picked};
}

void softmax_gradient_cuda(const at::Tensor& logits, const at::Tensor& maximum, const at::Tensor& sum,
                           const at::Tensor& column, double scale, at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(logits.device());
  if (logits.numel() == 0) return;
  const kernels::SoftmaxGradient of{maximum.const_data_ptr<float>(), sum.const_data_ptr<float>(),
                                    static_cast<float>(scale), float_type(type)};
  launch(kernels::softmax_gradient, rows_of(logits, column), of);
}

void softmax_loss_cuda(const at::Tensor& logits, const at::Tensor& column, double scale, at::ScalarType type,
                       const at::Tensor& losses) {
  const c10::cuda::CUDAGuard guard(logits.device());
  if (logits.numel() == 0) return;
  const auto rows = rows_of(logits, column);
  if (kernels::takes_whole_rows(rows)) {
    launch(kernels::softmax_whole_rows, rows, float_type(type), static_cast<float>(scale), losses.data_ptr<float>());
    return;
  }
  const at::Tensor ignored = column.lt(0).unsqueeze(1);
  const auto [maximum, sum, picked] = softmax_statistics_cuda(logits, column);
  losses.copy_((sum.log() - (picked - maximum)).masked_fill(ignored, 0).squeeze(1));
  // An infinite sum makes the row of what is no target zero.
  const at::Tensor divisor = sum.masked_fill(ignored, std::numeric_limits<float>::infinity());
  softmax_gradient_cuda(logits, maximum, divisor, column, scale, type);
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("softmax_statistics", &softmax_statistics_cuda);
  m.impl("softmax_gradient_", &softmax_gradient_cuda);
  m.impl("softmax_loss_", &softmax_loss_cuda);
}

}  // namespace capstan::ops::cuda
