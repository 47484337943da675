#pragma once
// The operators that the dispatcher knows as capstan::…: one kernel per device, CPU and Meta in core, CUDA in
// libcapstan_cuda. Callers use the functions of include/capstan/ops.
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>

#include "kernels/random_numbers.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// A Philox key as the dispatcher passes it.
inline std::int64_t key_bits(PhiloxKey key) {
  return static_cast<std::int64_t>(std::uint64_t{key.word[1]} << 32 | key.word[0]);
}
inline PhiloxKey key_from_bits(std::int64_t bits) {
  const auto whole = static_cast<std::uint64_t>(bits);
  return {{static_cast<std::uint32_t>(whole), static_cast<std::uint32_t>(whole >> 32)}};
}

using FillNormal = void(const at::Tensor& out, double mean, double std, std::int64_t key, at::IntArrayRef logical_shape,
                        at::IntArrayRef offsets);
using Dropout = at::Tensor(const at::Tensor& x, double p, std::int64_t key, std::int64_t step,
                           const std::optional<at::Tensor>& device_step, const at::Tensor& sample_ids,
                           at::IntArrayRef row_shape, at::IntArrayRef row_offset);
using SquaredNorms = void(const at::Tensor& out, at::TensorList xs, bool accumulate);
using PinnedBytes = at::Tensor(std::int64_t bytes, const at::Tensor& on_device);
using Rotary = at::Tensor(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies,
                          bool inverse);
using TurnHeads = void(const at::Tensor& heads, const at::Tensor& positions, at::ArrayRef<double> frequencies);
using TurnHeadsBack = at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& positions, at::ArrayRef<double> frequencies);
using Swiglu = at::Tensor(const at::Tensor& x);
using SwigluBackward = at::Tensor(const at::Tensor& gradient, const at::Tensor& x);
using GeluBackward = at::Tensor(const at::Tensor& gradient, const at::Tensor& x, bool tanh);

/// Dropout's numbers for probability p and a key's bits.
kernels::DropoutRule dropout_rule(double p, std::int64_t key);

}  // namespace ops
CAPSTAN_END_NAMESPACE
