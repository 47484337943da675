#include "step/passes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace capstan::step {
namespace {

// What passes gave, with the matrices of models whose states are among it.
objective::Others given(const objective::Plan& plan, const std::vector<at::Tensor>& outputs,
                        const std::vector<FrozenRunner*>& models) {
  const auto passes = plan.passes.size();
  objective::Others others{outputs, std::vector<at::Tensor>(passes), std::vector<std::optional<double>>(passes)};
  others.outputs.resize(plan.passes.size());
  for (std::size_t i = 0; i < plan.passes.size(); ++i) {
    if (plan.passes[i].output != nn::HeadOutput::states || !others.outputs[i].defined()) continue;
    const auto& head = models.at(*plan.passes[i].model)->head();
    others.matrices[i] = head.matrix();
    others.caps[i] = head.cap();
  }
  return others;
}

}  // namespace

nn::Batch Passes::of_pass(std::size_t index, nn::Batch batch, const std::vector<at::Tensor>& others) const {
  const auto& pass = objective_->plan().passes[index];
  batch.pass.output = pass.output;
  batch.pass.adapters = pass.adapters;
  batch.pass.measured = pass.gradient;
  batch.training = batch.training && pass.gradient;
  if (const auto count = std::ssize(objective_->plan().baselines); pass.gradient && count > 0) {
    const auto doubles = batch.tokens.options().dtype(at::kDouble);
    batch.pass.baselines = baselines_.defined() ? baselines_ : at::zeros({count}, doubles);
  }
  if (pass.output != nn::HeadOutput::function) return batch;
  batch.pass.function = [objective = objective_, models = models_, index, others](const nn::HeadInput& input) {
    return objective->head(index, input, given(objective->plan(), others, models));
  };
  return batch;
}

nn::Batch Passes::trained(nn::Batch batch, const std::vector<at::Tensor>& others) const {
  return of_pass(objective_->trained(), std::move(batch), others);
}

at::Tensor Passes::as_asked(std::size_t index, const nn::Batch& batch, const at::Tensor& output) const {
  const auto& pass = objective_->plan().passes[index];
  const bool by_sequence = !pass.sequences.empty() && pass.output == nn::HeadOutput::log_probabilities;
  return by_sequence && output.defined() ? batch.sum_by_sequence(output.to(at::kDouble)) : output;
}

std::vector<at::Tensor> Passes::run_others(const std::vector<nn::Batch>& batches) const {
  const auto& passes = objective_->plan().passes;
  std::vector<at::Tensor> outputs(passes.size());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (i == objective_->trained()) continue;
    const auto own = of_pass(i, batches.at(objective_->choice_of(i)), outputs);
    outputs[i] = as_asked(i, own, passes[i].model ? models_.at(*passes[i].model)->forward(own) : forward_(own).states);
  }
  return outputs;
}

at::Tensor Passes::baselines(const nn::Batch& batch, const std::vector<at::Tensor>& others) const {
  const at::NoGradGuard no_grad;
  return at::stack(objective_->baselines(given(objective_->plan(), others, models_), batch)).to(at::kDouble);
}

void Passes::tell(const at::Tensor& sums, const std::vector<double>& counts) {
  std::vector<double> divisors;
  for (const auto& spec : objective_->plan().baselines) divisors.push_back(strategy::divisor(counts.at(spec.count)));
  baselines_ = sums / at::tensor(divisors, at::kDouble).to(sums.device());
}

objective::Sums Passes::sums(const nn::Batch& batch, std::vector<at::Tensor> others, const at::Tensor& output) const {
  for (auto* model : models_) model->release();  // the trained model's head has run
  others.resize(objective_->plan().passes.size());
  others[objective_->trained()] = as_asked(objective_->trained(), batch, output);
  return objective_->sums(others, batch);
}

objective::Sums Passes::evaluate(const std::vector<nn::Batch>& batches) const {
  auto others = run_others(batches);
  const auto own = trained(batches.front(), others);
  const at::NoGradGuard no_grad;
  const auto output = forward_(own).states;
  return output.defined() ? sums(own, std::move(others), output) : objective::Sums();
}

}  // namespace capstan::step
