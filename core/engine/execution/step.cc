#include "execution/step.h"

#include <cmath>
#include <utility>

namespace capstan::execution {
namespace {

// Sums and counts [F, 2]; undefined where nothing is counted.
at::Tensor numbers_of(const std::vector<strategy::Figure>& figures) {
  std::vector<at::Tensor> all;
  for (const auto& figure : figures) all.push_back(at::stack({figure.sum, figure.count}));
  return all.empty() ? at::Tensor() : at::stack(all);
}

}  // namespace

Step::Step(session::Session& session)
    : session_(session),
      hooks_(session),
      reached_(session),
      updates_(*session.job->config.optimizer, setup::loss_scaling_of(*session.job->config.train).value(),
               session.device),
      micro_steps_(session, graph_setting(session)) {}

StepResult Step::gradients(const StepInput& input, std::int64_t target_tokens) {
  // A step without any target still runs, like the others' collectives: its gradients are zero.
  const auto divisor = std::max<std::int64_t>(1, divisor_of(input, target_tokens));
  micro_steps_.run(input, static_cast<double>(divisor), updates_.loss_scale());
  const auto& sums = micro_steps_.sums();
  StepResult result;
  result.has_auxiliary = sums.has_auxiliary;
  result.norms = session_.engine->squared_grad_norms();
  // The data ranks' shares of the auxiliary loss add up, as their loss sums do.
  const auto& topology = session_.job->topology;
  const auto auxiliary = sums.auxiliary / static_cast<double>(topology.batch.accumulation);
  const auto figures = hooks_.figures();
  for (const auto& figure : figures) result.figures.push_back(figure.name);
  result.numbers = StepNumbers({result.norms.sum(), sums.loss, auxiliary, sums.expert_tokens, numbers_of(figures)},
                               topology.speaks_for_coordinate());
  result.numbers.sum(session_);
  if (!reached_.is_done()) reached_.run(result.numbers.read().expert_tokens);
  if (updates_.loss_scale().on()) result.numbers.divide_norm_by(updates_.loss_scale().value());
  return result;
}

// Where gradients are local on an axis, each position on it has its own mean.
std::int64_t Step::divisor_of(const StepInput& input, std::int64_t target_tokens) {
  if (session_.local_axes().empty()) return target_tokens;
  auto count = at::tensor(std::vector<std::int64_t>{input.target_tokens}, at::kLong);
  session_.divisor_group->all_reduce(count, comm::ReduceOp::sum, "all-reduce local target tokens");
  return count.item<std::int64_t>();
}

StepResult Step::run(const StepInput& input, std::int64_t target_tokens, double lr) {
  const auto number = std::to_string(input.step);
  const Traced step(tracer_.get(), monitor::Span::step, number);
  auto result = gradients(input, target_tokens);
  if (watch_gradients_) watch_gradients_(input.step);
  if (before_update_) before_update_();
  const Traced optimizer(tracer_.get(), monitor::Span::optimizer, "update");
  const auto scale = updates_.loss_scale().value().clone();  // this step's: next() may change it
  // Weight decay and moments would move parameters although no sample has a gradient: no loss is no update.
  const auto numbers = result.numbers.norm_and_loss();
  const auto update = updates_.next(target_tokens > 0 ? numbers : at::full_like(numbers, NAN));
  std::function<void()> after;
  if (hooks_.any()) after = [&] { hooks_.after_step(input.step, update.skip.eq(0)); };
  session_.engine->update(lr, update, after);
  result.numbers.set_update(scale, update.skip);
  return result;
}

void Step::trace(std::shared_ptr<monitor::Tracer> tracer) {
  tracer_ = std::move(tracer);
  if (tracer_->units()) trace_units(*session_.runner, tracer_);
}

void Step::during_evaluation(std::int64_t steps_done, const std::function<void()>& call) {
  if (hooks_.change_evaluation() && before_update_) before_update_();
  const Traced evaluation(tracer_.get(), monitor::Span::evaluation, "evaluation");
  hooks_.during_evaluation(steps_done, call);
}

}  // namespace capstan::execution
