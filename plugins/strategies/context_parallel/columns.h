#pragma once
#include <capstan/nn/batch.h>

#include <cstdint>
#include <vector>

namespace context_parallel {

/// How attention sees the columns of other ranks.
enum class Method { ulysses, gather, ring };

/// Which columns rank `rank` of `ranks` has of rows that have `columns`.
///
/// Rows are cut into 2 · ranks chunks, the last ones of which may be shorter or empty, and rank r has chunks r and
/// 2 · ranks - 1 - r: causal attention costs the later columns more, and so every rank's queries cost the same. Rows
/// with as many columns as there are ranks leave each rank at least one.
std::vector<capstan::nn::ColumnRange> own_columns(std::int64_t columns, int ranks, int rank);

/// How many columns each rank has.
std::vector<std::int64_t> column_counts(std::int64_t columns, int ranks);

/// x [all columns, ...], rank by rank, as own_columns lists them -> in the order of columns; and back.
at::Tensor in_order(const at::Tensor& x, int ranks);
at::Tensor by_rank(const at::Tensor& x, int ranks);

}  // namespace context_parallel
