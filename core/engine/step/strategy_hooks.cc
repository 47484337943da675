#include "step/strategy_hooks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include <capstan/strategy/loss_hooks.h>
#include "plugin/guard.h"

#include <algorithm>
#include <utility>

namespace capstan::step {
namespace {

// dp spans ep too, which is a data axis for dense parameters.
std::vector<layout::Axis> spanned(layout::Axis axis) {
  if (axis == layout::Axis::dp) return {layout::Axis::dp, layout::Axis::ep};
  return {axis};
}

}  // namespace

strategy::StepContext StrategyHooks::step_after(std::int64_t steps_done) {
  strategy::StepContext step;
  step.number = steps_done - 1;
  step.last = steps_done == session_.job->samples.plan.steps;
  step.finite = at::ones({}, at::TensorOptions().dtype(at::kBool).device(session_.device));
  step.device = session_.device;
  step.parts = session_.engine->step_parts();
  session_.state->hold(step.parts);
  step.group = [this](layout::Axis axis) -> comm::Group& { return *session_.groups()(spanned(axis)); };
  return step;
}

void StrategyHooks::call(const StepHooksOf& made, const char* name, Hook hook, strategy::StepContext& step) {
  step.state = &session_.state->of(made.plugin, "step");
  step.own_group = [this, &made](layout::Axis axis, c10::Device device) -> comm::Group& {
    return *session_.groups().own(made.plugin, spanned(axis), device);
  };
  plugin::guard(made.plugin, step.number < 0 ? std::string(name) : cat(name, " of step ", step.number),
                [&] { (made.hooks.get()->*hook)(step); });
}

void StrategyHooks::begin(std::int64_t steps_done) {
  if (!any()) return;
  session_.engine->write_masters([&] {
    auto step = step_after(steps_done);
    for (const auto& made : session_.steps) call(made, "begin", &strategy::StepHooks::begin, step);
  });
}

void StrategyHooks::after_step(std::int64_t number, const at::Tensor& finite) {
  auto step = step_after(number + 1);
  step.finite = finite;
  for (const auto& made : session_.steps) call(made, "after_step", &strategy::StepHooks::after_step, step);
}

std::vector<strategy::Figure> StrategyHooks::figures() {
  std::vector<strategy::Figure> all;
  for (const auto& made : session_.steps) {
    plugin::guard(made.plugin, "figures", [&] {
      for (auto& figure : made.hooks->figures()) all.push_back(std::move(figure));
    });
  }
  return all;
}

void StrategyHooks::loss_known(std::int64_t step, double loss) {
  for (const auto& made : session_.steps) {
    auto* hooks = dynamic_cast<strategy::LossHooks*>(made.hooks.get());
    if (hooks) plugin::guard(made.plugin, cat("loss_known of step ", step), [&] { hooks->loss_known(step, loss); });
  }
}

void StrategyHooks::before_save(std::int64_t steps_done) {
  if (!any()) return;
  const at::NoGradGuard no_grad;
  auto step = step_after(steps_done);
  for (const auto& made : session_.steps) call(made, "before_save", &strategy::StepHooks::before_save, step);
}

bool StrategyHooks::change_evaluation() const {
  return std::any_of(session_.steps.begin(), session_.steps.end(),
                     [](const StepHooksOf& made) { return made.evaluation_weights; });
}

void StrategyHooks::during_evaluation(std::int64_t steps_done, const std::function<void()>& call_it) {
  if (!change_evaluation()) return call_it();
  std::vector<at::Tensor> aside;
  const auto put_back = [&] {
    session_.engine->write_masters([&] {
      const auto parts = session_.engine->step_parts();
      for (std::size_t i = 0; i < aside.size(); ++i) parts[i].master.copy_(aside[i]);
    });
  };
  try {
    session_.engine->write_masters([&] {
      auto step = step_after(steps_done);
      for (const auto& part : step.parts) aside.push_back(part.master.to(at::kCPU, /*non_blocking=*/false, true));
      for (const auto& made : session_.steps) {
        if (made.evaluation_weights) call(made, "evaluation_weights", &strategy::StepHooks::evaluation_weights, step);
      }
    });
    call_it();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace capstan::step
