#include "execution/micro_steps.h"

#include <ATen/ATen.h>

#include <utility>

namespace capstan::execution {

MicroSteps::MicroSteps(const session::Session& session, GraphSetting graphs)
    : session_(session), accumulation_(session.job->topology.batch.accumulation), graphs_(session, std::move(graphs)) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(session.device);
  sums_.loss = at::zeros({}, doubles);
  sums_.auxiliary = at::zeros({}, doubles);
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

void MicroSteps::run(const StepInput& input, std::size_t index) {
  session_.engine->begin_micro_step(static_cast<std::int64_t>(index));
  const auto body = [this](const nn::Batch& batch) { run_batch(batch); };
  if (graphs_.run(input, index, body)) return;
  run_batch(training_batch(input.micro[index], session_.job->seed(), input.step, session_.device));
}

// Recorded in a graph it runs again with other numbers in the same memory: where backward starts is in memory too.
void MicroSteps::run_batch(const nn::Batch& batch) {
  const auto hidden = session_.runner->forward(batch);
  const auto& loss = hidden.states;
  sums_.has_auxiliary = !hidden.sums.empty();
  if (!seed_.defined()) {
    seed_ = at::empty({}, loss.options());
    auxiliary_seed_ = at::empty({}, loss.options());
    fill_seeds();
  }
  if (hidden.sums.empty()) {
    session_.runner->backward(loss, seed_);
  } else {
    auto objective = loss * seed_;
    for (const auto& auxiliary : hidden.sums) objective = objective + auxiliary * auxiliary_seed_;
    session_.runner->backward(objective, at::ones({}, objective.options()));
  }
  sums_.loss += loss.detach().to(at::kDouble);
  for (const auto& auxiliary : hidden.sums) sums_.auxiliary += auxiliary.detach().to(at::kDouble);
  if (hidden.expert_tokens.empty()) return;
  const auto tokens = at::stack(hidden.expert_tokens);
  if (!sums_.expert_tokens.defined()) sums_.expert_tokens = at::zeros_like(tokens);
  sums_.expert_tokens += tokens;
}

}  // namespace capstan::execution
