#include "train/micro_steps.h"

#include <ATen/ATen.h>

#include <utility>

namespace capstan::train {

MicroSteps::MicroSteps(MicroStepSetting setting, const LoadedModel& model)
    : setting_(std::move(setting)), model_(model), graphs_(setting_.graphs, model) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(model.device);
  sums_.loss = at::zeros({}, doubles);
  sums_.auxiliary = at::zeros({}, doubles);
}

void MicroSteps::begin(double target_tokens, const LossScale& scale) {
  target_tokens_ = target_tokens;
  scale_ = &scale;
  sums_.loss.zero_();
  sums_.auxiliary.zero_();
  sums_.expert_tokens = at::Tensor();
  if (seed_.defined()) seed_.copy_(scale.seed(target_tokens, seed_.options()));
}

void MicroSteps::run(const inference::StepInput& input, std::size_t index) {
  const auto& micro = input.micro[index];
  model_.engine.begin_micro_step(static_cast<std::int64_t>(index));
  const auto body = [this](const nn::Batch& batch) { run_recorded(batch); };
  if (graphs_.run({micro, setting_.seed, input.step, static_cast<std::int64_t>(index)}, body)) return;
  run_eagerly(inference::training_batch(micro, setting_.seed, input.step, model_.device));
}

void MicroSteps::run_eagerly(const nn::Batch& batch) {
  const auto hidden = model_.runner.forward(batch);
  const auto& loss = hidden.states;
  backward_from(hidden);
  sums_.loss += loss.detach().to(at::kDouble);
  for (const auto& auxiliary : hidden.sums) sums_.auxiliary += auxiliary.detach().to(at::kDouble);
  sums_.has_auxiliary = !hidden.sums.empty();
  if (!seed_.defined()) seed_ = scale_->seed(target_tokens_, loss.options()).clone();
  if (!hidden.sums.empty() || !hidden.expert_tokens.empty()) graphs_.refuse("the model routes tokens to experts");
  if (hidden.expert_tokens.empty()) return;
  sums_.expert_layers = static_cast<std::int64_t>(hidden.expert_tokens.size());
  const auto tokens = at::cat(hidden.expert_tokens);
  sums_.expert_tokens = sums_.expert_tokens.defined() ? sums_.expert_tokens + tokens : tokens;
}

// What run_eagerly() does without auxiliary losses, with nothing that the host knows of the step.
void MicroSteps::run_recorded(const nn::Batch& batch) {
  const auto hidden = model_.runner.forward(batch);
  model_.runner.backward(hidden.states, seed_);
  sums_.loss += hidden.states.detach().to(at::kDouble);
}

void MicroSteps::backward_from(const nn::Hidden& hidden) {
  const auto& loss = hidden.states;
  if (hidden.sums.empty()) return model_.runner.backward(loss, scale_->seed(target_tokens_, loss.options()));
  auto objective = loss / target_tokens_;
  for (const auto& auxiliary : hidden.sums) objective = objective + auxiliary / setting_.accumulation;
  model_.runner.backward(objective, scale_->seed(1.0, objective.options()));
}

}  // namespace capstan::train
