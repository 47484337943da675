#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

#include "on_host.h"

CAPSTAN_BEGIN_NAMESPACE
namespace adamw {

/// What update_lists updates: tensors of equal sizes at each index, contiguous, on one GPU. All but the copies have one
/// dtype: float32, bfloat16 or half. With float32 masters all gradients may also have the copies' 16-bit dtype.
struct Lists {
  std::vector<at::Tensor> masters, averages, squares, gradients;
  std::vector<at::Tensor> copies;  ///< bfloat16 or half, for each master; or none at all
};

/// Numbers that are on the GPU: 0-dim float32.
struct OnDevice {
  at::Tensor count;       ///< updates made, this one included
  at::Tensor grad_scale;  ///< gradients are divided by it
  at::Tensor skip;        ///< 1: nothing is to change
};

/// Can update_lists update such a tensor, and write such a copy (which may be undefined)?
bool takes(const at::Tensor& master, const at::Tensor& gradient, const at::Tensor& copy);

/// The update of at::_fused_adamw_ and the copy of the new masters, bit for bit, in one pass over memory and a launch
/// for every 64 tensors. ATen's writes the scaled gradient back, and the copy reads the masters again: in place of 38
/// bytes an element (float32, with a 16-bit copy) this moves 30. `step`'s count and grad_scale are not read.
/// The first call opens the file that has the kernels; throws Error if it cannot be.
void update_lists(const Lists& lists, const Step& step, const OnDevice& numbers);

}  // namespace adamw
CAPSTAN_END_NAMESPACE
