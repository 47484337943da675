#include "step/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace capstan::step {
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

StepResult Step::gradients(const StepInput& input, const std::vector<double>& counts) {
  // A step without any target still runs, like the others' collectives: its gradients are zero.
  micro_steps_.run(input, divisors_of(input, counts), updates_.loss_scale(), tracer_.get());
  const auto& sums = micro_steps_.sums();
  StepResult result;
  result.has_auxiliary = sums.has_auxiliary;
  result.norms = session_.engine->squared_grad_norms();
  // The data ranks' shares of the auxiliary loss add up, as their loss sums do.
  const auto& topology = session_.job->topology;
  const bool speaks = topology.speaks_for_stage();
  const auto auxiliary = sums.auxiliary / static_cast<double>(topology.batch.accumulation);
  auto figures = hooks_.figures();
  add_figures(input, figures);
  for (const auto& figure : figures) result.figures.push_back(figure.name);
  result.numbers = StepNumbers({result.norms.sum(), sums.loss, auxiliary, sums.expert_tokens, numbers_of(figures)},
                               {speaks && session_.runner->stages().has_end(), speaks});
  result.numbers.sum(session_);
  if (!reached_.is_done()) reached_.run(result.numbers.read().expert_tokens);
  if (updates_.loss_scale().on()) result.numbers.divide_norm_by(updates_.loss_scale().value());
  return result;
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
// of ranks that share its tokens are parts, and one of these ranks gives the counts.
void Step::add_figures(const StepInput& input, std::vector<strategy::Figure>& figures) const {
  const auto& sums = micro_steps_.sums().figures;
  const auto& specs = session_.job->plugins.minimised->plan().figures;
  const bool counts = session_.runner->stages().has_end() && session_.job->model->sequence_cut.speaks;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto count = counts ? input.counts.at(specs[i].count) : 0.0;
    figures.push_back({specs[i].name, sums[static_cast<std::int64_t>(i)], at::full({}, count, sums.options())});
  }
}

StepResult Step::run(const StepInput& input, const std::vector<double>& counts, double lr) {
  const auto number = std::to_string(input.step);
  const Traced step(tracer_.get(), monitor::Span::step, number);
  auto result = gradients(input, counts);
  if (watch_gradients_) watch_gradients_(input.step);
  if (before_update_) before_update_();
  const Traced optimizer(tracer_.get(), monitor::Span::optimizer, "update");
  const auto scale = updates_.loss_scale().value().clone();  // this step's: next() may change it
  // Weight decay and moments would move parameters although no sample has a gradient: no loss is no update.
  const auto numbers = result.numbers.norm_and_loss();
  const bool has_loss = std::any_of(counts.begin(), counts.end(), [](double count) { return count > 0; });
  const auto update = updates_.next(has_loss ? numbers : at::full_like(numbers, NAN));
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

}  // namespace capstan::step
