#pragma once
// The operators that clamped_swiglu.h calls: operators.cc has their schemas, CPU code and shapes,
// clamped_swiglu_cuda.cc their CUDA side.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace gpt_oss {

using Maybe = std::optional<at::Tensor>;  // a schema's "Tensor?"

/// "capstan::clamped_swiglu": [rows, ff] of x [rows, 2 ff] and each row's bias, of the group that it is in.
using Forward = at::Tensor(const at::Tensor& x, const Maybe& bias, const Maybe& group, double limit, double slope);

/// "capstan::clamped_swiglu_backward": x's gradient from that of the result.
using Backward = at::Tensor(const at::Tensor& gradient, const at::Tensor& x, const Maybe& bias, const Maybe& group,
                            double limit, double slope);

}  // namespace gpt_oss
