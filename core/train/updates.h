#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/optimizer_rule.h>

#include <ATen/core/Tensor.h>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Turns a step's gradient norm into what the optimizer rule needs: how to scale gradients, and whether to skip.
class Updates {
 public:
  Updates(const setup::OptimizerOptions& options, c10::Device device);
  /// `norm`: the gradients' global norm, 0-dim float64 on the device. Gradients are clipped to options.clip; where the
  /// norm is not finite nothing is to change, and the count stays. Never waits for the device.
  strategy::Update next(double lr, const at::Tensor& norm);

 private:
  double clip_;
  at::Tensor count_;  ///< updates made: float32 scalar, on the device
};

}  // namespace train
CAPSTAN_END_NAMESPACE
