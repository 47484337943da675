#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <torch/csrc/autograd/custom_function.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// x for a product with a large matrix and for adapters' products with small ones.
struct SharedInput {
  at::Tensor base;     ///< read by one product, whose gradient of it is new memory
  at::Tensor adapter;  ///< read by any
};

/// Both are x. Where linear() reads `adapter`, backward adds that product's gradient of x to the base's in the base's
/// memory, as a product of its own: no tensor of x's size is made for it, and none is added.
SharedInput share_input(const at::Tensor& x);

/// For a product's forward: its context notes whether x is `adapter` of share_input.
void note_sharing(torch::autograd::AutogradContext& ctx, const at::Tensor& x);
/// In its backward: hands over its gradient of x, gradient [rows, k] times weight [k, in], if that was noted.
bool defer_gradient(torch::autograd::AutogradContext& ctx, const at::Tensor& gradient, const at::Tensor& weight);

/// What made x, before it was shared.
torch::autograd::Edge beyond_sharing(const at::Tensor& x);

}  // namespace ops
CAPSTAN_END_NAMESPACE
