#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <vector>

#include "setup/options.h"
#include "shard/engine.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// AdamW (Loshchilov & Hutter 2019) as a function of slices, by ATen's fused kernels. Wants two state tensors a
/// slice: the averages of gradients and of their squares.
class AdamW {
 public:
  AdamW(setup::OptimizerOptions options, c10::Device device);
  static constexpr std::size_t states = 2;

  /// One update. `norm`: the gradients' global norm, 0-dim float64 on the device. Gradients are clipped to
  /// options.clip; where the norm is not finite nothing changes, not even the step count. Never waits for the device.
  void apply(std::vector<shard::Slice>& slices, double lr, const at::Tensor& norm);
  bool decays(const nn::Weight& weight) const { return options_.decay == "all" || weight.records().front().decay; }

 private:
  setup::OptimizerOptions options_;
  at::Tensor step_;  ///< updates done: float32 scalar, on the device
};

}  // namespace train
CAPSTAN_END_NAMESPACE
