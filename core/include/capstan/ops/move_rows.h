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

}  // namespace ops
CAPSTAN_END_NAMESPACE
