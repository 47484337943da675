#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/optimizer_rule.h>

#include <ATen/core/Tensor.h>

#include <string>

#include "setup/options.h"
#include "train/loss_scale.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Turns a step's gradient norm into what the optimizer rule needs: how to scale gradients, and whether to skip. Holds
/// what outlives a step: the number of updates and the loss scale.
class Updates {
 public:
  Updates(const setup::OptimizerOptions& options, const setup::LossScaling& scaling, c10::Device device);
  const LossScale& loss_scale() const { return loss_scale_; }
  /// `numbers`: [2] float64 on the device, over all ranks: squared norm of the gradients, without the loss scale, and
  /// the loss sum. Gradients are clipped to options.clip; where a number is not finite nothing is to change, the count
  /// stays, and a dynamic loss scale shrinks. Every rank gets the same. Never waits for the device.
  strategy::Update next(double lr, const at::Tensor& numbers);

  /// The named section of a checkpoint, as JSON. Waits for the device.
  std::string save() const;
  /// Takes it back; a dynamic loss scale where both runs have one. Throws Error when it is no such text.
  void restore(const std::string& json);

 private:
  double clip_;
  at::Tensor count_;  ///< updates made: float32 scalar, on the device
  LossScale loss_scale_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
