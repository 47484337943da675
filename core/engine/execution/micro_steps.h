#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "execution/expert_layers.h"
#include "execution/feed.h"
#include "execution/micro_graphs.h"
#include "execution/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace execution {

/// What a step's micro-steps add up on the device.
struct MicroStepSums {
  at::Tensor loss;       ///< 0-dim float64
  at::Tensor auxiliary;  ///< 0-dim float64
  /// [layers of the whole model, experts] float64, zero for those that other ranks compute; undefined: no layer of this
  /// rank has experts.
  at::Tensor expert_tokens;
  bool has_auxiliary = false;  ///< the model has an auxiliary loss
};

/// Runs a step's program over its micro-batches. A micro-batch is trained on its loss sum, divided by the step's target
/// tokens, and on this rank's share of its auxiliary losses (Hidden::sums after the head), divided by the step's
/// micro-batches. Gradients come multiplied by the loss scale. Where MicroGraphs can, it replays forward and backward.
class MicroSteps {
 public:
  /// `session` must outlive it.
  MicroSteps(const session::Session& session, GraphSetting graphs);
  /// All of the step: its gradients are in the engine. `scale` must outlive it.
  void run(const StepInput& input, double target_tokens, const LossScale& scale);
  /// The sums of the next step have the same memory.
  const MicroStepSums& sums() const { return sums_; }

 private:
  void begin(double target_tokens, const LossScale& scale);
  void add(const strategy::RankStage& stage, const nn::Hidden& out);
  strategy::Start start(const nn::Hidden& out);
  void fill_seeds();

  const session::Session& session_;
  std::int64_t accumulation_;
  strategy::Program program_;
  ExpertLayers layers_;
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
