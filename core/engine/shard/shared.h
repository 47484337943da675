#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <functional>
#include <utility>
#include <vector>

#include "comm/side_stream.h"
#include "ops/device_graph.h"
#include "shard/footprint.h"
#include "shard/gradient_offload.h"
#include "shard/options.h"
#include "shard/plan.h"
#include "shard/slices.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The engine's side streams. Work of one kind is in order, so that it can share buffers.
struct SideStreams {
  SideStreams(c10::Device device, bool overlap)
      : gather(device, overlap),
        reduce(device, overlap),
        replicate(device, overlap),
        transfer(device, overlap),
        bring_back(device, overlap) {}
  SideStream gather;      ///< all-gathers and their unpacking
  SideStream reduce;      ///< reduce-scatters and their packing
  SideStream replicate;   ///< hybrid's all-reduce between copies
  SideStream transfer;    ///< gradients to the host, updated parameters back
  SideStream bring_back;  ///< earlier micro-steps' gradients back from the host
};

/// What the buckets of one engine share.
struct Shared {
  Shared(EngineOptions engine_options, const std::vector<nn::Unit*>& units)
      : options(std::move(engine_options)),
        plan(make_plan(units, options)),
        streams(options.precision.device, options.policy.overlap),
        offload(*this) {
    if (!options.optimizer) return;
    for (auto& slice : plan_slices(plan, options)) slices.push_back({std::move(slice)});
  }

  c10::Device device() const { return options.precision.device; }
  /// Makes the slices' states, zero, when they are first needed: an evaluation has none.
  void allocate_states() {
    for (auto& slice : slices) {
      if (!slice.state.empty()) return;
      for (const auto& state : slice.states) slice.state.push_back(allocate(state.buffer, device()));
    }
  }
  void allocate_staging() {
    gather_staging = allocate(*find(plan.staging, Purpose::gather_staging), device());
    reduce_staging = allocate(*find(plan.staging, Purpose::reduce_staging), device());
    sum_staging = allocate(*find(plan.staging, Purpose::sum_staging), device());
    partial_staging = allocate(*find(plan.staging, Purpose::partial_staging), device());
    offload.allocate();
  }

  EngineOptions options;  ///< what the engine was made with
  ShardPlan plan;         ///< what moves together, and how
  SideStreams streams;
  GradientOffload offload;         ///< sums on their way to host memory and back
  std::vector<OwnedSlice> slices;  ///< what the optimizer's rules update
  // Staging that all buckets use in turn: each belongs to one stream, whose work is in order.
  at::Tensor gather_staging;   ///< all ranks' shards, which a gather brings, in the compute dtype
  at::Tensor reduce_staging;   ///< gradients that a reduction sends, in the dtype of sums
  at::Tensor sum_staging;      ///< a reduction's result, where it is cast or added to earlier ones
  at::Tensor partial_staging;  ///< gradients that are partial sums over other axes than data's, for their all-reduce
  /// Carries out at once what follows on other streams than the one that computes, or gives it to a recording.
  ops::GraphRecorder::Apart apart = [](const std::function<void()>& work) { work(); };
  Event updated;  ///< masters on the device are as the last update left them
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
