#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <map>
#include <string>
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

  /// To be called after shards that peers may read have changed.
  void note_write() { ++writes; }
  /// On the gather stream, before peers' shards are read: waits until all ranks of the group are past their last
  /// write(s). They write again only after every rank's contribution to their gradients, which each rank makes after it
  /// has read the shards.
  void await_writes(comm::Group& group, const std::string& label) {
    auto& seen = writes_seen[&group];
    if (seen == writes) return;
    const auto number = [&](std::int64_t count) {
      return allocate({Purpose::gather_staging, count, c10::ScalarType::Int}, device());
    };
    group.all_gather(number(group.size()), number(1), label);
    seen = writes;
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
  std::uint64_t writes = 1;  ///< of shards, so far: the same number on all ranks
  std::map<const comm::Group*, std::uint64_t> writes_seen;
  Event updated;  ///< masters on the device are as the last update left them
};

}  // namespace capstan::shard
