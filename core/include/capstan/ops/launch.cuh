#pragma once
// For *_cuda.cc files, which have tensors and call kernels' launchers.
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <capstan/kernels/heads.h>
#include <capstan/kernels/launcher.h>

#include <utility>

namespace capstan::ops::cuda {

/// Queues a kernel on the current stream, and throws if CUDA does not take it. The device is the caller's CUDAGuard's.
template <class... Parameters, class... Arguments>
void launch(void (*launcher)(Parameters...), Arguments&&... arguments) {
  launcher(std::forward<Arguments>(arguments)..., c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/// Throws for a type that no kernel knows.
inline kernels::FloatType float_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return kernels::FloatType::float64;
    case at::kFloat:
      return kernels::FloatType::float32;
    case at::kBFloat16:
      return kernels::FloatType::bfloat16;
    case at::kHalf:
      return kernels::FloatType::half;
    default:
      TORCH_CHECK(false, "kernels know float64, float32, bfloat16 and float16, and not ", type, ": convert the tensor");
  }
}
inline kernels::FloatType float_type(const at::Tensor& x) { return float_type(x.scalar_type()); }

/// Can it be read by 16 bytes?
inline bool is_packed(const at::Tensor& x) { return kernels::is_aligned(x.const_data_ptr()); }

inline kernels::Heads heads_at(const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.stride(3) == 1,
              "kernels take heads [batch, length, heads, dim] whose features lie side by side, not ", x.sizes(),
              " with strides ", x.strides());
  return {x.const_data_ptr(), static_cast<int>(x.size(2)), x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace capstan::ops::cuda
