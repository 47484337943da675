#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// y = x W_e^T for each row, with the matrix of the group that the row is in: `x` [T, in] with rows of one group side
/// by side, `weight` [E, out, in], `ends` [E] int32 on x's device, the row behind each group's last one (ascending; the
/// last is T; groups may be empty). The result is [T, out].
///
/// bfloat16 on CUDA with `in` and `out` multiples of 8 runs as one grouped product and never waits for the device; all
/// else multiplies group by group, which on CUDA reads `ends` first. Autograd knows x and weight, once.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends);

/// Rows of `x` [N, h] in another order, each `copies` times: out[i] = x[index[i] / copies] for `index`, a permutation
/// of 0 … N copies - 1, and `inverse`, the permutation that undoes it (both int64 on x's device). Backward reads the
/// gradient in `inverse`'s order and adds the copies of each row side by side, so that sums have one order, where
/// index_select's own adds with atomics.
at::Tensor permute_rows(const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse,
                        std::int64_t copies = 1);

}  // namespace ops
CAPSTAN_END_NAMESPACE
