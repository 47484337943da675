#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <optional>

#include "ops/activation.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// linear(activated(x, activation), weight, bias): x [..., in], where the activation is gated [..., 2 in], weight
/// [out, in], bias [out] or absent. The same bits as these two after each other, and so are
/// the gradients; on a GPU up to the last place of float32 numbers.
/// Keeps x, and the weight where x has a gradient. Where both do, backward makes the gradient of x and the activation
/// again, which the weight's gradient is made of, in one pass that reads x and the activation's gradient once, and
/// writes the activation in that gradient's place.
at::Tensor activated_linear(const at::Tensor& x, Activating activation, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias);

}  // namespace ops
CAPSTAN_END_NAMESPACE
