#pragma once
// What the CUDA halves of operators (X_cuda.cc) share: tensors in, launches out. Opened with libcapstan_cuda.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <capstan/base/error.h>

#include <cstdint>
#include <utility>

#include "kernels/block_sum.h"
#include "kernels/launchers.h"
#include "ops/operator.h"

namespace capstan::ops::cuda {

/// Queues a kernel on the current stream.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Arguments&&... arguments) {
  kernel(std::forward<Arguments>(arguments)..., c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/// Throws for a type that no kernel knows.
inline kernels::FloatType float_type(const at::Tensor& x) {
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

inline const void* data_of(const Maybe& x) { return x ? x->const_data_ptr() : nullptr; }

/// Can it be read by 16 bytes?
inline bool is_packed(const at::Tensor& x) {
  constexpr std::uintptr_t pack = 16;
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % pack == 0;
}

inline kernels::Heads heads_at(const at::Tensor& x) {
  CAPSTAN_ASSERT(x.dim() == 4 && x.stride(3) == 1);
  return {x.const_data_ptr(), static_cast<int>(x.size(2)), x.stride(0), x.stride(1), x.stride(2)};
}

/// The list of as many tensors from `begin` on as one launch takes.
inline kernels::NormList list_from(at::TensorList xs, std::size_t begin) {
  kernels::NormList list;
  for (std::size_t i = begin; i < xs.size() && list.count < kernels::NormList::capacity; ++i, ++list.count) {
    list.data[list.count] = xs[i].const_data_ptr();
    list.numel[list.count] = xs[i].numel();
    list.type[list.count] = float_type(xs[i]);
    list.first_block[list.count + 1] = list.first_block[list.count] + kernels::sum_blocks(xs[i].numel());
  }
  return list;
}

}  // namespace capstan::ops::cuda
