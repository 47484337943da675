#pragma once
#include <capstan/base/export.h>
#include <capstan/optimizer/rule.h>

#include <ATen/core/Tensor.h>

#include <string>

#include "setup/precision.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// The loss scale (Micikevicius et al. 2018, section 3.2): backward starts from scale / divisor instead of 1 / divisor.
/// A power of two rounds nothing, so without overflow or underflow results are bit-equal with and without it.
/// The scale is a device scalar: nothing here waits for the device but the numbers that a checkpoint takes.
class LossScale {
 public:
  LossScale(const setup::LossScaling& rule, c10::Device device);

  bool on() const { return rule_.on; }
  bool dynamic() const { return rule_.dynamic; }
  /// Might a smaller scale help against an overflow? The scale is dynamic and `scale` is not yet the smallest.
  bool can_shrink(double scale) const { return rule_.dynamic && scale > rule_.min; }
  /// 0-dim float64 on the device; 1 where scaling is off.
  const at::Tensor& value() const { return scale_; }
  /// What backward starts from: scale / divisor, 0-dim.
  at::Tensor seed(double divisor, const at::TensorOptions& options) const;
  /// Halves a dynamic scale after an overflow, doubles it after enough good steps. 0-dim bools on the device:
  /// `finite`: the update is made; `overflow`: gradients are not finite though the loss is (else no scale could help).
  void follow(const at::Tensor& finite, const at::Tensor& overflow);

  /// What a checkpoint keeps of a dynamic scale.
  struct State {
    double scale = 1;
    std::int64_t good_steps = 0;
  };
  State save() const;
  void restore(const State& state);

 private:
  setup::LossScaling rule_;
  at::Tensor scale_;
  at::Tensor good_steps_;  // float64, since the scale last changed
};

/// Turns a step's gradient norm into what the optimizer rule needs: how to scale gradients, and whether to skip. Holds
/// what outlives a step: the number of updates and the loss scale.
class Updates {
 public:
  Updates(const setup::OptimizerOptions& options, const setup::LossScaling& scaling, c10::Device device);
  const LossScale& loss_scale() const { return loss_scale_; }
  /// `numbers`: [2] float64 on the device, over all ranks: squared norm of the gradients, without the loss scale, and
  /// the loss sum. Gradients are clipped to options.clip; where a number is not finite nothing is to change, the count
  /// stays, and a dynamic loss scale shrinks. Every rank gets the same. Never waits for the device.
  optimizer::Update next(const at::Tensor& numbers);

  /// The named section of a checkpoint, as JSON. Waits for the device.
  std::string save() const;
  /// Takes it back; a dynamic loss scale where both runs have one. Throws Error when it is no such text.
  void restore(const std::string& json);

 private:
  double clip_;
  at::Tensor count_;  ///< updates made: float64 scalar, on the device
  LossScale loss_scale_;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
