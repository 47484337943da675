#pragma once
// For the files that hand tensors to CUDA kernels.
#include <ATen/core/Tensor.h>

#include "ops/cuda_kernels.h"

namespace capstan::ops::cuda {

/// Throws for a type that no kernel knows.
FloatType float_type(const at::Tensor& x);

}  // namespace capstan::ops::cuda
