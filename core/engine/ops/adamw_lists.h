#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

#include "ops/adamw.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// What adamw_lists_ updates: tensors of equal sizes at each index, contiguous, on one GPU. All but the copies have one
/// dtype: float32, bfloat16 or half. With float32 masters all gradients may also have the copies' 16-bit dtype.
struct AdamwLists {
  std::vector<at::Tensor> masters, averages, squares, gradients;
  std::vector<at::Tensor> copies;  ///< bfloat16 or half, for each master; or none at all
};

/// Numbers that are on the GPU: 0-dim float32.
struct AdamwOnDevice {
  at::Tensor count;       ///< updates made, this one included
  at::Tensor grad_scale;  ///< gradients are divided by it
  at::Tensor skip;        ///< 1: nothing is to change
};

/// Can adamw_lists_ update such a tensor, and write such a copy (which may be undefined)?
bool takes_adamw_lists(const at::Tensor& master, const at::Tensor& gradient, const at::Tensor& copy);

/// The update of at::_fused_adamw_ and the copy of the new masters, bit for bit, in one pass over memory and a launch
/// for every 64 tensors. ATen's writes the scaled gradient back, and the copy reads the masters again: in place of 38
/// bytes an element (float32, with a 16-bit copy) this moves 30. `step`'s count and grad_scale are not read.
void adamw_lists_(const AdamwLists& lists, const AdamwStep& step, const AdamwOnDevice& numbers);

}  // namespace ops
CAPSTAN_END_NAMESPACE
