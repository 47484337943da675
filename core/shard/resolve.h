#pragma once
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Decides how a bucket's parameters and gradients are kept and moved, once its weights are known, and lists its
/// buffers.
void resolve(BucketPlan& bucket, const EngineOptions& options);

/// The staging that the plan's buckets, all resolved, share.
Buffers list_staging(const ShardPlan& plan, const EngineOptions& options);

}  // namespace shard
CAPSTAN_END_NAMESPACE
