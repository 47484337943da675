#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Rows of a table [V, h]: `ids` of any shape, int64 -> [ids' shape, h], as at::embedding. The table's gradient is
/// dense; that of a leaf that give_rows() was called for is the rows as they came: a sparse tensor with indices [1, T]
/// and values [T, h], not coalesced.
///
/// `real`, bool of ids' shape: what comes back where it is false is zero, as it is for padding. Rows have the index -1
/// there, so that thousands of zeros of one id are not added up. Undefined: all are.
at::Tensor lookup(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& real = {});

/// From now on lookups in this leaf make such gradients: for callers that add rows up. Only lookup() may use it.
void give_rows(const at::Tensor& table);

/// to[ids[i] - first] += rows[i] for all i whose id is in [first, first + R): `to` [R, h] of floats, contiguous, `ids`
/// [N] int64, `rows` [N, h] of any float dtype. What comes to one row of `to` is added in the order of i, in the
/// products' dtype of `to` (float32 for 16 bits), rounded to its own dtype once on CUDA and after each on CPU: so it is
/// deterministic, and the same on each rank that adds the same. On CUDA ids are sorted and each row is one thread
/// block's.
void add_rows_(const at::Tensor& to, const at::Tensor& ids, const at::Tensor& rows, std::int64_t first);

}  // namespace ops
CAPSTAN_END_NAMESPACE
