#include "step/step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace capstan::step {

Step::Step(Session& session)
    : session_(session),
      hooks_(session),
      reached_(session),
      updates_(*session.job->config.optimizer, setup::loss_scaling_of(*session.job->config.train).value(),
               session.device),
      micro_steps_(session, updates_.loss_scale(), graph_setting(session)) {}

StepNumbers Step::gradients(const StepInput& input, const std::vector<double>& counts) {
  // A step without any target still runs, like the others' collectives: its gradients are zero.
  auto numbers = micro_steps_.run(input, divisors_of(input, counts));
  numbers.norms = session_.engine->squared_grad_norms();
  // The data ranks' shares of the auxiliary loss add up, as their loss sums do.
  numbers.auxiliary = numbers.auxiliary / static_cast<double>(session_.job->topology.batch.accumulation);
  give_figures(input, counts, numbers);
  numbers.sum(session_);
  if (!reached_.is_done()) {
    numbers.read();
    reached_.run(numbers.tokens_by_expert());
  }
  if (updates_.loss_scale().on()) numbers.divide_norm_by(updates_.loss_scale().value());
  return numbers;
}

// Where gradients are local on an axis, each position on it has its own mean.
std::vector<double> Step::divisors_of(const StepInput& input, const std::vector<double>& counts) {
  if (session_.local_axes().empty()) return counts;
  auto local = at::tensor(input.counts, at::kDouble);
  session_.divisor_group->all_reduce(local, comm::ReduceOp::sum, "all-reduce the objective's local counts");
  const auto* begin = local.const_data_ptr<double>();
  return {begin, begin + local.numel()};
}

// Ranks of one data coordinate that compute the model's end give the same sums and counts, which cancel out. The sums
// of ranks that share its tokens are parts, and one of these ranks gives the counts. A mean over nothing is none, such
// as the loss of a source that the step has no sample of: it gets no name.
void Step::give_figures(const StepInput& input, const std::vector<double>& counts, StepNumbers& numbers) {
  numbers.figures = hooks_.figures();
  const auto& specs = session_.job->plugins.minimised->plan().figures;
  const bool gives_counts = session_.runner->stages().has_end() && session_.job->model->sequence_cut.represents_sample;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, base, better] = specs[i];
    const auto count = at::full({}, gives_counts ? input.counts.at(base) : 0.0, numbers.objective_figures.options());
    numbers.figures.push_back(
        {counts.at(base) == 0 ? "" : name, numbers.objective_figures[static_cast<std::int64_t>(i)], count});
  }
}

StepNumbers Step::run(const StepInput& input, const std::vector<double>& counts, double lr) {
  const auto number = std::to_string(input.step);
  const Traced step(tracer_.get(), monitor::Span::step, number);
  auto numbers = gradients(input, counts);
  if (watch_gradients_) watch_gradients_(input.step);
  if (before_update_) before_update_();
  const Traced optimizer(tracer_.get(), monitor::Span::optimizer, "update");
  const auto scale = updates_.loss_scale().value().clone();  // this step's: next() may change it
  // Weight decay and moments would move parameters although no sample has a gradient: no loss is no update.
  const auto norm_and_loss = numbers.norm_and_loss();
  const bool has_loss = std::any_of(counts.begin(), counts.end(), [](double count) { return count > 0; });
  const auto update = updates_.next(has_loss ? norm_and_loss : at::full_like(norm_and_loss, NAN));
  std::function<void()> after;
  if (hooks_.any()) after = [&] { hooks_.after_step(input.step, update.skip.eq(0)); };
  session_.engine->update(lr, update, after);
  numbers.set_update(scale, update.skip);
  return numbers;
}

void Step::trace(std::shared_ptr<monitor::Tracer> tracer) {
  tracer_ = std::move(tracer);
  micro_steps_.trace(tracer_.get());
  if (tracer_->units()) trace_units(*session_.runner, tracer_);
}

void Step::during_evaluation(std::int64_t steps_done, const std::function<void()>& call) {
  if (hooks_.change_evaluation() && before_update_) before_update_();
  const Traced evaluation(tracer_.get(), monitor::Span::evaluation, "evaluation");
  hooks_.during_evaluation(steps_done, call);
}

}  // namespace capstan::step
