#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dpo {

/// [count] float64: the sums of the values [M] whose sequence is 0, 1, …; `sequence` [M] int64 says it for each value,
/// and any number outside of [0, count) leaves a value out. Differentiable in the values. The order of each sum is
/// fixed, so equal inputs give equal bits, on GPUs too, and the device is not waited for. Takes count x M numbers of
/// memory.
at::Tensor sums_by_sequence(const at::Tensor& values, const at::Tensor& sequence, std::int64_t count);

}  // namespace dpo
