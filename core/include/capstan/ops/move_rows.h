#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Rows of `x` [N, ...] at other places: a tensor of `rows` rows with out[to[i]] = x[from[i]] and zeros elsewhere.
/// `from` and `to`, int64 on x's device, are of one length, and each holds no number twice; so backward, which moves
/// rows from `to` to `from`, adds nothing, and is the same in any order. Autograd knows x, once.
at::Tensor move_rows(const at::Tensor& x, const at::Tensor& from, const at::Tensor& to, std::int64_t rows);

}  // namespace ops
CAPSTAN_END_NAMESPACE
