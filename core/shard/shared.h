#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "shard/gradient_offload.h"
#include "shard/options.h"
#include "shard/plan.h"
#include "shard/side_streams.h"

namespace capstan::shard {

/// What the buckets of one engine share.
struct Shared {
  Shared(EngineOptions engine_options, const std::vector<nn::Unit*>& units)
      : options(std::move(engine_options)),
        plan(make_plan(units, options)),
        streams(options.precision.device, options.policy.overlap),
        offload(plan, options, streams) {}

  c10::Device device() const { return options.precision.device; }
  void allocate_staging() {
    gather_staging = allocate(*find(plan.staging, Purpose::gather_staging), device());
    reduce_staging = allocate(*find(plan.staging, Purpose::reduce_staging), device());
    sum_staging = allocate(*find(plan.staging, Purpose::sum_staging), device());
    partial_staging = allocate(*find(plan.staging, Purpose::partial_staging), device());
    offload.allocate();
  }

  EngineOptions options;
  ShardPlan plan;
  SideStreams streams;
  GradientOffload offload;
  /// Each belongs to one stream, whose work is in order.
  at::Tensor gather_staging;
  at::Tensor reduce_staging;
  at::Tensor sum_staging;
  at::Tensor partial_staging;
  Event updated;  ///< masters on the device are as the last update left them
};

}  // namespace capstan::shard
