#pragma once
// The operators that heads.h calls: operators.cc has their schemas, CPU code and shapes, heads_cuda.cc their CUDA side.
#include <ATen/core/Tensor.h>

namespace qwen3 {

/// "capstan::qwen3_heads": the first of fused's heads, as many as the two counts (queries, keys), normed and turned.
using Forward = at::Tensor(const at::Tensor& fused, at::TensorList norms, const at::Tensor& positions,
                           at::IntArrayRef counts, double epsilon, at::ArrayRef<double> frequencies);

/// "capstan::qwen3_heads_back": fused's gradient from those of q, k and v.
using Backward = at::Tensor(at::TensorList gradients, const at::Tensor& fused, at::TensorList norms,
                            const at::Tensor& positions, double epsilon, at::ArrayRef<double> frequencies);

}  // namespace qwen3
