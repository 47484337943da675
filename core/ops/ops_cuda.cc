// The operators' CUDA side: tensors in, launches out. Opened with libcapstan_cuda.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <capstan/base/error.h>
#include <torch/library.h>

#include <limits>

#include "kernels/block_sum.h"
#include "kernels/launchers.h"
#include "ops/cuda_tensors.h"
#include "ops/make_box.h"
#include "ops/operators.h"

namespace capstan::ops::cuda {
kernels::FloatType float_type(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kDouble:
      return kernels::FloatType::float64;
    case at::kFloat:
      return kernels::FloatType::float32;
    case at::kBFloat16:
      return kernels::FloatType::bfloat16;
    case at::kHalf:
      return kernels::FloatType::half;
    default:
      TORCH_CHECK(false, "not a float type that Capstan's kernels know: ", x.scalar_type());
  }
}

namespace {

void fill_normal_cuda(const at::Tensor& out, double mean, double std, std::int64_t key, at::IntArrayRef logical_shape,
                      at::IntArrayRef offsets) {
  const c10::cuda::CUDAGuard guard(out.device());
  kernels::fill_normal(out.data_ptr(), float_type(out), out.numel(), make_box(out.sizes(), logical_shape, offsets),
                       mean, std, key_from_bits(key), c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor dropout_cuda(const at::Tensor& x, double p, std::int64_t key, std::int64_t step,
                        const std::optional<at::Tensor>& device_step, const at::Tensor& sample_ids,
                        at::IntArrayRef row_shape, at::IntArrayRef row_offset) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), ids = sample_ids.contiguous(), out = at::empty_like(in);
  if (in.numel() == 0) return out;
  const kernels::DropoutShape shape{in.size(0), in.numel() / in.size(0),
                                    make_box(in.sizes().slice(1), row_shape, row_offset)};
  CAPSTAN_ASSERT(!device_step || device_step->device() == x.device());
  const kernels::DropoutStep now{step, device_step ? device_step->const_data_ptr<std::int64_t>() : nullptr};
  kernels::dropout(out.data_ptr(), in.const_data_ptr(), float_type(in), shape, dropout_rule(p, key), now,
                   ids.const_data_ptr<std::int64_t>(), c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

/// The list of as many tensors from `begin` on as one launch takes.
kernels::NormList list_from(at::TensorList xs, std::size_t begin) {
  kernels::NormList list;
  for (std::size_t i = begin; i < xs.size() && list.count < kernels::NormList::capacity; ++i, ++list.count) {
    list.data[list.count] = xs[i].const_data_ptr();
    list.numel[list.count] = xs[i].numel();
    list.type[list.count] = float_type(xs[i]);
    list.first_block[list.count + 1] = list.first_block[list.count] + kernels::sum_blocks(xs[i].numel());
  }
  return list;
}

void squared_norms_cuda(const at::Tensor& out, at::TensorList xs, bool accumulate) {
  const c10::cuda::CUDAGuard guard(out.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  for (std::size_t begin = 0; begin < xs.size(); begin += kernels::NormList::capacity) {
    const kernels::NormList list = list_from(xs, begin);
    const at::Tensor sums = at::empty({list.first_block[list.count]}, out.options());
    kernels::squared_norms(list, sums.data_ptr<double>(), out.data_ptr<double>() + begin, accumulate, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

void checksums_cuda(const at::Tensor& out, at::TensorList xs) {
  const c10::cuda::CUDAGuard guard(out.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  out.zero_();
  for (std::size_t begin = 0; begin < xs.size(); begin += kernels::NormList::capacity) {
    kernels::add_checksums(list_from(xs, begin), out.data_ptr<std::int64_t>() + begin, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

void add_lists_cuda(at::TensorList to, at::TensorList from) {
  const c10::cuda::CUDAGuard guard(to.front().device());
  for (std::size_t begin = 0; begin < from.size(); begin += kernels::NormList::capacity) {
    kernels::AddList list{list_from(from, begin), {}};
    for (int i = 0; i < list.from.count; ++i) list.to[i] = to[begin + static_cast<std::size_t>(i)].data_ptr<float>();
    kernels::add_lists(list, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

kernels::SoftmaxRows rows_of(const at::Tensor& logits, const at::Tensor& column) {
  return {logits.data_ptr<float>(), column.const_data_ptr<std::int64_t>(), logits.size(0), logits.size(1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> softmax_statistics_cuda(const at::Tensor& logits,
                                                                       const at::Tensor& column) {
  const c10::cuda::CUDAGuard guard(logits.device());
  const auto one = [&] { return at::empty({logits.size(0), 1}, logits.options()); };
  const at::Tensor maximum = one(), sum = one(), picked = one();
  if (logits.size(0) > 0) {
    kernels::softmax_statistics(rows_of(logits, column), maximum.data_ptr<float>(), sum.data_ptr<float>(),
                                picked.data_ptr<float>(), c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {maximum, sum, picked};
}

kernels::FloatType gradient_type(at::ScalarType type) {
  if (type == at::kBFloat16) return kernels::FloatType::bfloat16;
  return type == at::kHalf ? kernels::FloatType::half : kernels::FloatType::float32;
}

void softmax_gradient_cuda(const at::Tensor& logits, const at::Tensor& maximum, const at::Tensor& sum,
                           const at::Tensor& column, double scale, at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(logits.device());
  if (logits.numel() == 0) return;
  kernels::softmax_gradient(
      rows_of(logits, column),
      {maximum.const_data_ptr<float>(), sum.const_data_ptr<float>(), static_cast<float>(scale), gradient_type(type)},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void softmax_loss_cuda(const at::Tensor& logits, const at::Tensor& column, double scale, at::ScalarType type,
                       const at::Tensor& losses) {
  const c10::cuda::CUDAGuard guard(logits.device());
  if (logits.numel() == 0) return;
  const auto rows = rows_of(logits, column);
  if (kernels::takes_whole_rows(rows)) {
    kernels::softmax_whole_rows(rows, gradient_type(type), static_cast<float>(scale), losses.data_ptr<float>(),
                                c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
  const at::Tensor ignored = column.lt(0).unsqueeze(1);
  const auto [maximum, sum, picked] = softmax_statistics_cuda(logits, column);
  losses.copy_((sum.log() - (picked - maximum)).masked_fill(ignored, 0).squeeze(1));
  // An infinite sum makes the row of what is no target zero.
  const at::Tensor divisor = sum.masked_fill(ignored, std::numeric_limits<float>::infinity());
  softmax_gradient_cuda(logits, maximum, divisor, column, scale, type);
}

at::Tensor swiglu_cuda(const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous();
  auto shape = in.sizes().vec();
  const auto columns = shape.back() /= 2;
  at::Tensor out = at::empty(shape, in.options());
  if (out.numel() == 0) return out;
  kernels::swiglu(out.data_ptr(), in.const_data_ptr(), float_type(in), out.numel() / columns, columns,
                  c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

at::Tensor swiglu_gradient(const at::Tensor& gradient, const at::Tensor& x, bool again) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  if (out.numel() == 0) return out;
  const auto columns = in.size(-1) / 2;
  kernels::swiglu_backward({out.data_ptr(), gradient.data_ptr(), in.const_data_ptr(), float_type(in),
                            gradient.numel() / columns, columns, again},
                           c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

at::Tensor swiglu_backward_cuda(const at::Tensor& gradient, const at::Tensor& x) {
  return swiglu_gradient(gradient.contiguous(), x, false);
}

at::Tensor swiglu_both_cuda(const at::Tensor& gradient, const at::Tensor& x) {
  return swiglu_gradient(gradient, x, true);
}

at::Tensor gelu_of(const at::Tensor& x, void* gradient, bool tanh, bool again) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  if (out.numel() == 0) return out;
  kernels::gelu({out.data_ptr(), gradient, in.const_data_ptr(), float_type(in), in.numel(), tanh, again},
                c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

at::Tensor gelu_cuda(const at::Tensor& x, bool tanh) { return gelu_of(x, nullptr, tanh, false); }

at::Tensor gelu_backward_cuda(const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
  return gelu_of(x, gradient.contiguous().data_ptr(), tanh, false);
}

at::Tensor gelu_both_cuda(const at::Tensor& gradient, const at::Tensor& x, bool tanh) {
  return gelu_of(x, gradient.data_ptr(), tanh, true);
}

// What LibTorch's flash attention takes: heads wider than 192 have a backward where a thread block has enough memory.
std::int64_t segment_columns_cuda(const at::Tensor& like) {
  const auto attribute = [&](cudaDeviceAttr what) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, what, like.get_device()));
    return value;
  };
  constexpr int first = 8, last_large = 10, some = 192, all = 256;
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  if (major < first) return 0;
  const bool small = (major == first && attribute(cudaDevAttrComputeCapabilityMinor) != 0) || major > last_large;
  return small ? some : all;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("segment_columns", &segment_columns_cuda);
  m.impl("fill_normal", &fill_normal_cuda);
  m.impl("dropout", &dropout_cuda);
  m.impl("squared_norms", &squared_norms_cuda);
  m.impl("checksums", &checksums_cuda);
  m.impl("add_lists_", &add_lists_cuda);
  m.impl("softmax_statistics", &softmax_statistics_cuda);
  m.impl("softmax_gradient_", &softmax_gradient_cuda);
  m.impl("softmax_loss_", &softmax_loss_cuda);
  m.impl("swiglu", &swiglu_cuda);
  m.impl("swiglu_backward", &swiglu_backward_cuda);
  m.impl("swiglu_both_", &swiglu_both_cuda);
  m.impl("gelu", &gelu_cuda);
  m.impl("gelu_backward", &gelu_backward_cuda);
  m.impl("gelu_both_", &gelu_both_cuda);
}

}  // namespace capstan::ops::cuda
