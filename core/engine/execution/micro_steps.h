#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "execution/expert_layers.h"
#include "execution/feed.h"
#include "execution/micro_graphs.h"
#include "execution/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace execution {

/// What a step's micro-steps add up on the device.
struct MicroStepSums {
  at::Tensor loss;       ///< 0-dim float64: the objective's terms, times the count that the loss is a mean over
  at::Tensor auxiliary;  ///< 0-dim float64
  /// [layers of the whole model, experts] float64, zero for those that other ranks compute; undefined: no layer of this
  /// rank has experts.
  at::Tensor expert_tokens;
  at::Tensor figures;          ///< [F] float64: the objective's
  bool has_auxiliary = false;  ///< the model has an auxiliary loss
};

/// Runs a step's program over its micro-batches. A micro-batch is trained on its sums of the objective's terms, divided
/// by the step's counts, and on this rank's share of its auxiliary losses (Hidden::sums after the head), divided by the
/// step's micro-batches. Gradients come multiplied by the loss scale. Where MicroGraphs can, it replays forward and
/// backward. Where the model is cut into stages, an objective's passes without gradient go through them before the
/// step's program, all micro-batches one after the other, and what they give stays until its backward starts. So they
/// do where the objective has baselines.
class MicroSteps {
 public:
  /// `session` must outlive it.
  MicroSteps(const session::Session& session, GraphSetting graphs);
  /// All of the step: its gradients are in the engine. `scale` must outlive it.
  /// `counts`: the objective's, of all that the step's gradients are summed over. `tracer` may be null: it is told of
  /// weights' gradients that come later than the rest of a backward, by micro-batch and stage.
  void run(const StepInput& input, const std::vector<double>& counts, const LossScale& scale,
           monitor::Tracer* tracer = nullptr);
  /// The sums of the next step have the same memory.
  const MicroStepSums& sums() const { return sums_; }

 private:
  void begin(const std::vector<double>& counts, const LossScale& scale);
  void add(const strategy::RankStage& stage, const nn::Hidden& out);
  void set_factors(const std::vector<double>& counts);
  at::Tensor minimised(const std::vector<at::Tensor>& terms) const;
  nn::Batch batch_of(const StepInput& input, int micro) const;
  void run_others(const StepInput& input, const std::vector<double>& counts);
  strategy::Start start(int micro, const nn::Batch& batch, const nn::Hidden& out);
  void fill_seeds();

  const session::Session& session_;
  std::int64_t accumulation_;
  strategy::Program program_;
  ExpertLayers layers_;
  MicroGraphs graphs_;
  strategy::Passes passes_;
  bool runs_ahead_ = false;                      // passes without gradient, of all micro-batches before the first one
  std::vector<std::vector<at::Tensor>> others_;  // what passes without gradient gave, by micro-batch and pass
  MicroStepSums sums_;
  at::Tensor factors_;  // [terms] float64, what each is multiplied by; undefined: a single term, by 1
  double divisor_ = 1;
  const LossScale* scale_ = nullptr;
  // What backward starts from, once it is known: the gradient of the loss, and that of auxiliary losses. Each is 0-dim
  // and has the dtype of the loss.
  at::Tensor seed_, auxiliary_seed_;
};

}  // namespace execution
CAPSTAN_END_NAMESPACE
