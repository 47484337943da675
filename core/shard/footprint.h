#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The memory that the engine allocates for a plan on one rank, part by part: the plan's buffers, added up. `states`:
/// tensors of optimizer state per slice, as the rule says.
std::vector<layout::Footprint> footprint(const ShardPlan& plan, const EngineOptions& options, std::size_t states);

/// Elements of all weights that are trained (logical).
std::int64_t trainable_parameters(const ShardPlan& plan);

}  // namespace shard
CAPSTAN_END_NAMESPACE
