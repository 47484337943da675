#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <vector>

#include "shard/options.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Tables whose lookups' gradients are exchanged as rows. Such a gradient has a row for each token of a micro-batch and
/// is complete only when backward has ended, where a sum over ranks of the whole table overlaps with nothing. So each
/// rank gathers all ranks' rows, few bytes, and adds those of its part of the table in one order. Where another unit
/// uses the table too (a tied head), its part of the gradient has been summed meanwhile, while backward ran.
///
/// GradientPlan::table_rows of `weight` used by these runs: 0 where the whole is to be summed. So it is under
/// `deterministic`, since rows are added in another order; where a strategy sums gradients, or offloads them; where
/// ranks hold parts or copies of the table; where something else than one nn::Embedding uses it in its first run; and
/// where all ranks' rows would be more than the table has.
std::int64_t table_rows(const nn::Weight& weight, const std::vector<std::vector<nn::Unit*>>& uses,
                        const EngineOptions& options);

/// Of a table: elements of a rank's own rows and of all ranks'.
inline std::int64_t exchanged_rows(const BucketPlan& table) {
  return (table.ranks + 1) * table.gradients.table_rows * table.weights.front().sharding.shape.back();
}

}  // namespace shard
CAPSTAN_END_NAMESPACE
