#include "execution/micro_steps.h"

#include <ATen/ATen.h>

#include <utility>

namespace capstan::execution {

MicroSteps::MicroSteps(const session::Session& session, GraphSetting graphs)
    : session_(session),
      accumulation_(session.job->topology.batch.accumulation),
      program_(session.job->model->program(static_cast<int>(accumulation_))),
      layers_(session.job->model->units),
      graphs_(session, std::move(graphs)) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(session.device);
  sums_.loss = at::zeros({}, doubles);
  sums_.auxiliary = at::zeros({}, doubles);
}

void MicroSteps::run(const StepInput& input, double target_tokens, const LossScale& scale) {
  begin(target_tokens, scale);
  strategy::Interpreter::Calls calls;
  calls.batch = [&](int micro) {
    return training_batch(input.micro[static_cast<std::size_t>(micro)], session_.job->seed(), input.step,
                          session_.device);
  };
  calls.before_backward = [&](int index) { session_.engine->begin_backward(index); };
  calls.computed = [&](const auto& stage, const nn::Hidden& out) { add(stage, out); };
  calls.start = [&](const nn::Hidden& out) { return start(out); };
  calls.whole = [&](int micro, const MicroGraphs::Body& both) {
    if (!graphs_.run(input, static_cast<std::size_t>(micro), both)) both(calls.batch(micro));
  };
  session_.interpreter->run(program_, calls);
}

void MicroSteps::begin(double target_tokens, const LossScale& scale) {
  target_tokens_ = target_tokens;
  scale_ = &scale;
  sums_.loss.zero_();
  sums_.auxiliary.zero_();
  if (sums_.expert_tokens.defined()) sums_.expert_tokens.zero_();
  if (seed_.defined()) fill_seeds();
}

void MicroSteps::fill_seeds() {
  if (!sums_.has_auxiliary) {
    seed_.copy_(scale_->seed(target_tokens_, seed_.options()));
    return;
  }
  const auto one = scale_->seed(1.0, seed_.options());
  seed_.copy_(one / target_tokens_);
  auxiliary_seed_.copy_(one / accumulation_);
}

// What of a micro-batch's numbers is known where a stage ends: its experts' tokens, and at the model's end its losses.
void MicroSteps::add(const strategy::RankStage& stage, const nn::Hidden& out) {
  if (!out.expert_tokens.empty()) {
    const auto tokens = at::stack(out.expert_tokens);
    if (!sums_.expert_tokens.defined())
      sums_.expert_tokens = at::zeros({layers_.count(), tokens.size(1)}, tokens.options());
    sums_.expert_tokens.narrow(0, layers_.first_of(session_.units[stage.first]), tokens.size(0)) += tokens;
  }
  if (stage.after >= 0) return;
  sums_.has_auxiliary = !out.sums.empty();
  sums_.loss += out.states.detach().to(at::kDouble);
  for (const auto& auxiliary : out.sums) sums_.auxiliary += auxiliary.detach().to(at::kDouble);
}

// Recorded in a graph it runs again with other numbers in the same memory: where backward starts is in memory too.
strategy::Start MicroSteps::start(const nn::Hidden& out) {
  const auto& loss = out.states;
  if (!seed_.defined()) {
    seed_ = at::empty({}, loss.options());
    auxiliary_seed_ = at::empty({}, loss.options());
    fill_seeds();
  }
  if (out.sums.empty()) return {loss, seed_};
  auto objective = loss * seed_;
  for (const auto& auxiliary : out.sums) objective = objective + auxiliary * auxiliary_seed_;
  return {objective, at::ones({}, objective.options())};
}

}  // namespace capstan::execution
