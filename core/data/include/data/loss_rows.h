#pragma once
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// The number of positions of a micro-batch for which logits are computed, where `targets` of all `positions` bear
/// loss. It is at least `targets`, and one of a few sizes (256, 512, then powers of two and three quarters of them),
/// because each size is another shape to record as a graph and to find products for. It is all positions where it would
/// leave out less than a quarter of them. It is the same for each rank that has the same micro-batch, and never 0: a
/// rank without a target takes part in the head's collectives like the others.
std::int64_t loss_rows(std::int64_t targets, std::int64_t positions);
/// The same for a micro-batch.
std::int64_t loss_rows(const HostBatch& batch);

/// Which positions these are, indices into rows x cols, ascending: all that bear loss, and as many others as are
/// missing. Empty: all positions.
std::vector<std::int64_t> loss_row_list(const HostBatch& batch);

}  // namespace data
CAPSTAN_END_NAMESPACE
