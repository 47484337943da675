#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Moves rows of `x` [N, ...]: a tensor of `rows` rows with out[to[i]] = x[from[i]] and zeros elsewhere. `from` and
/// `to`, int64 on x's device, have the same length and no duplicates; so backward, which moves rows from `to` to
/// `from`, adds nothing and is deterministic. Differentiable once, in x.
at::Tensor move_rows(const at::Tensor& x, const at::Tensor& from, const at::Tensor& to, std::int64_t rows);

/// The rows of `x` [N, ...] that `rows` [M] int64, on x's device and without duplicates, names: out[i] = x[rows[i]].
/// Backward adds nothing and is deterministic; rows that are not named have a gradient of zeros. Differentiable once.
at::Tensor pick_rows(const at::Tensor& x, const at::Tensor& rows);

}  // namespace ops
CAPSTAN_END_NAMESPACE
