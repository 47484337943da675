#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "job/topology.h"
#include "shard/plan.h"
#include "step_time/work.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// The number of nodes that these ranks are on, with `ranks_per_node` neighbours on each.
int nodes_of(const std::vector<int>& ranks, int ranks_per_node);

/// The all-gather of a bucket's parameters, and where they rest in host memory the copy from there.
void add_gather(const shard::BucketPlan& bucket, const job::Topology& topology, plan::Transfers& transfers);

/// The rest of a step: what the plan and the optimizer's number of state tensors determine.
plan::StepWork step_work(plan::MicroStepWork micro, const shard::ShardPlan& plan, const shard::EngineOptions& options,
                         const job::Topology& topology);

}  // namespace predict
CAPSTAN_END_NAMESPACE
