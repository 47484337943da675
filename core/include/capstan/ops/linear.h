#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// at::linear(x, weight, bias), bit for bit: x [..., in], weight [out, in], bias [out] or absent. The gradients of x
/// and weight are ATen's bit for bit too; the bias's is column_sums of the result's gradient. One node of autograd
/// where ATen makes four (views, a transposition, the product), each of which costs the host time on every call. Keeps
/// what ATen keeps: x where the weight is trained, the weight where x is. An x that comes straight from a norm
/// (add_norm), swiglu or gelu is not kept: backward computes it again, in the same bits.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

}  // namespace ops
CAPSTAN_END_NAMESPACE
