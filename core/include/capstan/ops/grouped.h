#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// y = x W_e^T for each row, with the matrix of the row's group: `x` [T, in] with the rows of a group contiguous,
/// `weight` [E, out, in], `ends` [E] int32 on x's device or in host memory, one past each group's last row (ascending;
/// the last is T; groups may be empty). The result is [T, out].
///
/// bfloat16 on CUDA with `in` and `out` multiples of 8 runs as one grouped product and never waits for the device.
/// Otherwise groups are multiplied one by one, which on CUDA first reads `ends`, if that is there; so they are where
/// the host has `ends` and groups have 512 rows in the mean, since a product of its own is then the faster.
/// Differentiable once, in x and weight.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends);

/// The gradient of grouped_linear's weight: a_e^T b_e over each group's rows of `a` [T, out] and `b` [T, in], as
/// [E, out, in]; zeros for a group without rows. `ends`, and where it is one product, as above. Not differentiable.
at::Tensor grouped_outer(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends);

/// Rows in the order of their groups.
struct GroupedRows {
  at::Tensor order;   ///< [N] int64: the rows of group 0, then of group 1 …, each group's in their own order
  at::Tensor place;   ///< [N] int64: where each row is in `order`, its inverse
  at::Tensor counts;  ///< [groups] int64: rows of each
};

/// `group` [N] int64 says of which of `groups` each row is, N below 2^31. On CUDA one launch, which reads `group` once
/// for each group, twice from 65,536 rows on; it never waits for the device.
GroupedRows group_rows(const at::Tensor& group, std::int64_t groups);
/// The same counts alone.
at::Tensor group_counts(const at::Tensor& group, std::int64_t groups);

/// Rows of `x` [N, h] in another order, each `copies` times: out[i] = x[index[i] / copies]. `index` permutes the
/// numbers 0 … N copies - 1, and `inverse` is the permutation that undoes it (both int64 on x's device). Backward reads
/// the gradient in `inverse`'s order and adds the copies of each row in order, so that sums are deterministic;
/// index_select's own backward adds with atomics.
at::Tensor permute_rows(const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse,
                        std::int64_t copies = 1);

/// Biases of rows that stand in groups.
struct GroupBiases {
  at::Tensor bias;   ///< [groups, columns]; undefined: none
  at::Tensor group;  ///< [rows] int64: each row's; undefined without biases
};

/// `x` [rows, columns] plus each row's bias, in x's dtype. The biases' gradient is group_sums.
at::Tensor add_group_biases(const at::Tensor& x, const GroupBiases& biases);

/// The sums of the `rows` [N, columns] of each group, [groups, columns]: added in float32 (float64 for float64),
/// rounded once, in an order that depends only on the sizes. Not differentiable.
at::Tensor group_sums(const at::Tensor& rows, const at::Tensor& group, std::int64_t groups);

}  // namespace ops
CAPSTAN_END_NAMESPACE
