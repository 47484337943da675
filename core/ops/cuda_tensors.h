#pragma once
// For the files that hand tensors to CUDA kernels.
#include <ATen/core/Tensor.h>

#include "kernels/launchers.h"

namespace capstan::ops::cuda {

/// Throws for a type that no kernel knows.
kernels::FloatType float_type(const at::Tensor& x);

}  // namespace capstan::ops::cuda
