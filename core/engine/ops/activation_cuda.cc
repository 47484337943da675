#include "ops/activation.h"
#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

at::Tensor activation_of(const at::Tensor& x, std::int64_t kind) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous();
  const bool gated = is_gated(static_cast<Activating>(kind));
  auto shape = in.sizes().vec();
  if (gated) shape.back() /= 2;
  const at::Tensor out = at::empty(shape, in.options());
  if (out.numel() == 0) return out;
  const auto columns = gated ? shape.back() : out.numel();
  launch(kernels::activation,
         kernels::ActivationCall{out.data_ptr(), nullptr, in.const_data_ptr(), float_type(in), out.numel() / columns,
                                 columns, static_cast<kernels::ActivationKind>(kind), false});
  return out;
}

at::Tensor gradient_of(const at::Tensor& gradient, const at::Tensor& x, std::int64_t kind, bool again) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  if (out.numel() == 0) return out;
  const auto columns = is_gated(static_cast<Activating>(kind)) ? in.size(-1) / 2 : in.numel();
  launch(kernels::activation, kernels::ActivationCall{out.data_ptr(), gradient.data_ptr(), in.const_data_ptr(),
                                                      float_type(in), gradient.numel() / columns, columns,
                                                      static_cast<kernels::ActivationKind>(kind), again});
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("activation", &activation_of);
  m.impl("activation_backward", [](const at::Tensor& gradient, const at::Tensor& x, std::int64_t kind) {
    return gradient_of(gradient.contiguous(), x, kind, false);
  });
  m.impl("activation_both_", [](const at::Tensor& gradient, const at::Tensor& x, std::int64_t kind) {
    return gradient_of(gradient, x, kind, true);
  });
}

}  // namespace capstan::ops::cuda
