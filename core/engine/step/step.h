#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "step/feed.h"
#include "step/gradient_check.h"
#include "step/micro_steps.h"
#include "step/strategy_hooks.h"
#include "step/tracing.h"
#include "step/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// What a step gave. On the device it is one float64 tensor, so that one all-reduce sums it over the ranks and one copy
/// brings it to the host, which need not wait. Where each number is in it, only this class knows.
class StepNumbers {
 public:
  /// This rank's. `norms` [weights] float64: its part of each weight's squared gradient norm, times the loss scale's
  /// square. Every rank gives `figures`; one without a name is not shown.
  StepNumbers(const StepSums& sums, at::Tensor norms, const std::vector<strategy::Figure>& figures);
  /// Sums them over the ranks, but for norms(). Collective over the world.
  void sum(const session::Session& session);
  /// The norm becomes that of gradients without this loss scale, a 0-dim float64.
  void divide_norm_by(const at::Tensor& loss_scale);
  /// [2]: squared norm and loss sum, on the device.
  at::Tensor norm_and_loss() const;
  /// What the update did: 0-dim tensors on the device.
  void set_update(const at::Tensor& loss_scale, const at::Tensor& skip);
  /// This rank's part of each weight's squared gradient norm, as it was given.
  const at::Tensor& norms() const { return norms_; }

  /// Starts the copy to host memory, which the numbers below are read from once it has ended.
  void start_copy();
  /// The same, and waits for the device.
  void read();
  /// The gradients' norm before clipping, without the loss scale.
  double grad_norm() const;
  /// What is minimised, times the count that it is a mean over.
  double loss_sum() const;
  /// The mean over micro-steps; none: the model has no auxiliary loss.
  std::optional<double> auxiliary_loss() const;
  double loss_scale() const;
  /// A number was not finite, so nothing was updated.
  bool skipped() const;
  /// Strategies' figures and then the objective's, by name.
  monitor::Values figures() const;
  /// [layers, experts] float64 on the CPU: the tokens that each expert computed; empty: no experts.
  at::Tensor expert_tokens() const;

 private:
  double number(std::int64_t place) const { return host_.const_data_ptr<double>()[place]; }
  at::Tensor numbers_;
  at::Tensor host_;                    // a copy in host memory
  at::Tensor norms_;                   // [weights]
  std::vector<std::string> figures_;   // names
  std::vector<std::int64_t> experts_;  // the shape of expert_tokens
  bool has_auxiliary_;
};

/// What a step's experts computed as named numbers. `tokens` [layers, experts] float64 on the CPU, empty for a model
/// without experts. "expert_tokens_3": tokens of expert 3, summed over layers. "expert_load_max": the busiest expert of
/// any layer against that layer's mean; 1 when the load is even.
void add_expert_load(monitor::Values& values, const at::Tensor& tokens);

/// Forward and backward of one step's micro-batches and the optimizer's update.
class Step {
 public:
  /// `session` must outlive it.
  explicit Step(session::Session& session);
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
  std::vector<strategy::Figure> figures(const StepInput& input, const std::vector<double>& counts,
                                        const StepSums& sums);

  session::Session& session_;
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
