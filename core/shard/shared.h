#pragma once
#include <ATen/core/Tensor.h>

#include "shard/lanes.h"
#include "shard/options.h"
#include "shard/plan.h"
#include "shard/transit.h"

namespace capstan::shard {

/// What the pieces of one engine share.
struct Shared {
  Shared(EngineOptions engine_options, const std::vector<nn::Unit*>& units)
      : options(std::move(engine_options)),
        plan(make_plan(units, options)),
        lanes(options.precision.device, options.policy.overlap),
        transit(plan, options, lanes) {}

  c10::Device device() const { return options.precision.device; }

  EngineOptions options;
  Plan plan;
  Lanes lanes;
  Transit transit;
  /// Buffers that collectives pass through; each belongs to one lane, whose work is in order.
  at::Tensor gather_scratch;   ///< compute dtype
  at::Tensor reduce_scratch;   ///< reduce dtype
  at::Tensor shard_scratch;    ///< reduce dtype
  at::Tensor partial_scratch;  ///< master dtype
  Mark updated;                ///< masters on the device are as the last update left them
};

}  // namespace capstan::shard
