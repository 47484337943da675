#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "step/expert_layers.h"
#include "step/feed.h"
#include "step/micro_graphs.h"
#include "step/passes.h"
#include "step/step_numbers.h"
#include "step/tracing.h"
#include "step/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Runs a step's program over its micro-batches. A micro-batch is trained on its sums of the objective's terms, divided
/// by the step's counts, and on this rank's share of its auxiliary losses (Hidden::sums after the head), divided by the
/// step's micro-batches. Gradients come multiplied by the loss scale. Where MicroGraphs can, it replays forward and
/// backward. Where the model is cut into stages, an objective's passes without gradient go through them before the
/// step's program, all micro-batches one after the other, and what they give stays until its backward starts. So
/// they do where the objective has baselines, or passes over some sequences.
class MicroSteps : private Workload {
 public:
  /// Both must outlive it.
  MicroSteps(const Session& session, const LossScale& scale, GraphSetting graphs);
  /// All of the step: its gradients are in the engine. Returns the rank's own sums; those of the next step have the
  /// same memory. `counts`: the objective's, of all that the step's gradients are summed over.
  StepNumbers run(const StepInput& input, const std::vector<double>& counts);
  /// The tracer is told of weights' gradients that come later than the rest of a backward, by micro-batch and stage. It
  /// must outlive this.
  void trace(monitor::Tracer* tracer) { tracer_ = tracer; }

 private:
  nn::Batch batch(int micro) override;
  void before(const strategy::Action& action) override;
  void before_backward(int index) override;
  void computed(const MicroContext& context) override;
  void start(int micro, MicroContext& context) override;
  void forward_backward(Interpreter& interpreter, int micro) override;
  void begin(const std::vector<double>& counts);
  void set_factors(const std::vector<double>& counts);
  at::Tensor minimised(const std::vector<at::Tensor>& terms) const;
  nn::Batch batch_of(int micro) const;
  bool runs_ahead() const;
  void run_others(const std::vector<double>& counts);
  void fill_seeds();

  const Session& session_;
  const LossScale& scale_;
  strategy::Program program_;
  ExpertLayers layers_;
  MicroGraphs graphs_;
  Passes passes_;
  std::vector<std::vector<at::Tensor>> others_;  // what passes without gradient gave, by micro-batch and pass
  StepNumbers sums_;
  at::Tensor factors_;  // [terms] float64, what each is multiplied by; undefined: a single term, by 1
  double divisor_ = 1;
  const StepInput* input_ = nullptr;
  monitor::Tracer* tracer_ = nullptr;
  std::optional<Traced> later_;  // weights' gradients that come later than the rest of a backward
  // What backward starts from, once it is known: the gradient of the loss, and that of auxiliary losses. Each is 0-dim
  // and has the dtype of the loss.
  at::Tensor seed_, auxiliary_seed_;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
