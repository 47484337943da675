#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "execution/feed.h"
#include "execution/micro_graphs.h"
#include "execution/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace execution {

/// What a step's micro-steps add up on the device.
struct MicroStepSums {
  at::Tensor loss;             ///< 0-dim float64
  at::Tensor auxiliary;        ///< 0-dim float64
  at::Tensor expert_tokens;    ///< [layers, experts] float64; undefined: no layer has experts
  bool has_auxiliary = false;  ///< the model has an auxiliary loss
};

/// Forward and backward of micro-batches. A micro-step is trained on its loss sum, divided by the step's target tokens,
/// and on this rank's share of its auxiliary losses (Hidden::sums after the head), divided by the step's micro-steps.
/// Gradients come multiplied by the loss scale. Where MicroGraphs can, it replays them.
class MicroSteps {
 public:
  /// `session` must outlive it.
  MicroSteps(const session::Session& session, GraphSetting graphs);
  /// Called before a step's first micro-step: sums are zero. `scale` must outlive the step.
  void begin(double target_tokens, const LossScale& scale);
  /// The step's micro-step `index`: its gradients are in the engine.
  void run(const StepInput& input, std::size_t index);
  /// The sums of the next step have the same memory.
  const MicroStepSums& sums() const { return sums_; }

 private:
  void run_batch(const nn::Batch& batch);
  void fill_seeds();

  const session::Session& session_;
  std::int64_t accumulation_;
  MicroGraphs graphs_;
  MicroStepSums sums_;
  double target_tokens_ = 1;
  const LossScale* scale_ = nullptr;
  // What backward starts from, once it is known: the gradient of the loss, and that of auxiliary losses. Each is 0-dim
  // and has the dtype of the loss.
  at::Tensor seed_;
  at::Tensor auxiliary_seed_;
};

}  // namespace execution
CAPSTAN_END_NAMESPACE
