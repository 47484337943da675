#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Calls strategies' step hooks, each with its plugin's name around errors. All ranks call alike. Costs nothing where
/// no strategy has hooks.
class StrategyHooks {
 public:
  /// `session` must outlive it.
  explicit StrategyHooks(Session& session) : session_(session) {}
  bool any() const { return !session_.steps.empty(); }
  /// Called before the first step, when everything is filled or restored.
  void begin(std::int64_t steps_done);
  /// Called inside Engine::update(). `finite`: 0-dim bool.
  void after_step(std::int64_t step, const at::Tensor& finite);
  /// What strategies have counted in this step.
  std::vector<strategy::Figure> figures();
  /// A step's loss, the same on all ranks: for hooks that are LossHooks.
  void loss_known(std::int64_t step, double loss);
  /// Called before a checkpoint's boxes are taken.
  void before_save(std::int64_t steps_done);
  /// Does evaluation see something else than the parameters?
  bool change_evaluation() const;
  /// Runs `call` with the parameters that evaluation is to see. The trained masters lie in host memory meanwhile, and
  /// come back bit for bit, also when it throws.
  void during_evaluation(std::int64_t steps_done, const std::function<void()>& call);

 private:
  using Hook = void (strategy::StepHooks::*)(strategy::StepContext&);
  void call(const StepHooksOf& made, const char* name, Hook hook, strategy::StepContext& step);
  strategy::StepContext step_after(std::int64_t steps_done);

  Session& session_;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
