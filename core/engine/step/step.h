#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "step/feed.h"
#include "step/gradient_check.h"
#include "step/micro_steps.h"
#include "step/step_numbers.h"
#include "step/strategy_hooks.h"
#include "step/tracing.h"
#include "step/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Forward and backward of one step's micro-batches and the optimizer's update.
class Step {
 public:
  /// `session` must outlive it.
  explicit Step(Session& session);
  /// Sums gradients of the objective's sums, divided by its counts over all ranks, and updates with this learning rate;
  /// where all counts are 0 nothing is updated. Collective over the world. The first
  /// time throws Error if a trained weight has no gradient.
  StepNumbers run(const StepInput& input, const std::vector<double>& counts, double lr);
  /// The same without the update: gradients, times the loss scale, stay in the engine (tests look at them).
  StepNumbers gradients(const StepInput& input, const std::vector<double>& counts);
  /// `call` is called before parameters change: when a step's gradients are there and nothing is updated yet, and
  /// before evaluation sees other parameters.
  void before_update(std::function<void()> call) { before_update_ = std::move(call); }
  /// `call` is called with the step's number when its gradients are there and nothing is updated yet.
  void watch_gradients(std::function<void(std::int64_t)> call) { watch_gradients_ = std::move(call); }
  StrategyHooks& hooks() { return hooks_; }
  /// Steps, units and updates are spans of this tracer from now on.
  void trace(std::shared_ptr<monitor::Tracer> tracer);
  /// StrategyHooks::during_evaluation, once what is being saved allows it.
  void during_evaluation(std::int64_t steps_done, const std::function<void()>& call);
  /// The part of the run's state that steps change, besides the engine's.
  Updates& updates() { return updates_; }
  const Updates& updates() const { return updates_; }

 private:
  std::vector<double> divisors_of(const StepInput& input, const std::vector<double>& counts);
  void give_figures(const StepInput& input, const std::vector<double>& counts, StepNumbers& numbers);

  Session& session_;
  StrategyHooks hooks_;
  GradientCheck reached_;  // checks the first step
  Updates updates_;
  MicroSteps micro_steps_;
  std::function<void()> before_update_;
  std::function<void(std::int64_t)> watch_gradients_;
  std::shared_ptr<monitor::Tracer> tracer_;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
