#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/step_hooks.h>

#include <vector>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// What a bucket's flat gradient holds: full weights one after the other, all ranks' shards, or one rank's shard.
enum class Flat { full, shards, shard };

/// Where records are in it; a shard is that of the rank at `position`. Padding is in no part.
std::vector<strategy::BucketPart> parts_of(const BucketPlan& bucket, Flat flat, int position);

}  // namespace shard
CAPSTAN_END_NAMESPACE
