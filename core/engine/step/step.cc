#include "step/step.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace capstan::step {
namespace {

// What comes first is one sum of all ranks' numbers; the update's own, zero until then, are the same on all of them.
enum Place : std::int64_t { norm_at, loss_at, auxiliary_at, scale_at, skip_at, figures_at };

constexpr const char* label = "all-reduce gradient norm and loss";

}  // namespace

StepNumbers::StepNumbers(const StepSums& sums, at::Tensor norms, const std::vector<strategy::Figure>& figures)
    : norms_(std::move(norms)), has_auxiliary_(sums.has_auxiliary) {
  const auto none = at::zeros({2}, sums.loss.options());
  auto losses = at::stack({sums.loss, sums.auxiliary});
  auto experts =
      sums.expert_tokens.defined() ? sums.expert_tokens.to(at::kDouble) : at::empty({0}, sums.loss.options());
  if (!sums.gives_losses) losses.zero_();
  if (!sums.gives_experts) experts = at::zeros_like(experts);
  std::vector<at::Tensor> shares;
  for (const auto& figure : figures) {
    figures_.push_back(figure.name);
    shares.push_back(at::stack({figure.sum, figure.count}));
  }
  const auto counted = shares.empty() ? at::empty({0}, sums.loss.options()) : at::stack(shares).flatten();
  experts_ = experts.sizes().vec();
  numbers_ = at::cat({norms_.sum().view({1}), losses, none, counted, experts.flatten()});
}

void StepNumbers::sum(const session::Session& session) {
  auto& world = *session.world_device;
  if (session.local_axes().empty()) {
    world.all_reduce(numbers_, comm::ReduceOp::sum, label);
  } else {
    session.norm_group->all_reduce(numbers_.narrow(0, norm_at, 1), comm::ReduceOp::sum, label);
    world.all_reduce(numbers_.narrow(0, loss_at, numbers_.numel() - loss_at), comm::ReduceOp::sum, label);
  }
}

void StepNumbers::divide_norm_by(const at::Tensor& loss_scale) { numbers_[norm_at].div_(loss_scale.square()); }

at::Tensor StepNumbers::norm_and_loss() const { return numbers_.narrow(0, norm_at, 2); }

void StepNumbers::set_update(const at::Tensor& loss_scale, const at::Tensor& skipped) {
  numbers_[scale_at].copy_(loss_scale);
  numbers_[skip_at].copy_(skipped);
}

void StepNumbers::start_copy() {
  if (numbers_.is_cpu()) {
    host_ = numbers_;
  } else {
    host_ = at::empty(numbers_.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    host_.copy_(numbers_, /*non_blocking=*/true);
  }
}

void StepNumbers::read() { host_ = numbers_.cpu(); }

double StepNumbers::grad_norm() const { return std::sqrt(number(norm_at)); }

double StepNumbers::loss_sum() const { return number(loss_at); }

std::optional<double> StepNumbers::auxiliary_loss() const {
  return has_auxiliary_ ? std::optional(number(auxiliary_at)) : std::nullopt;
}

double StepNumbers::loss_scale() const { return number(scale_at); }

bool StepNumbers::skipped() const { return number(skip_at) != 0; }

monitor::Values StepNumbers::figures() const {
  monitor::Values values;
  std::int64_t place = figures_at;
  for (const auto& name : figures_) {
    const auto sum = number(place++);
    const auto count = number(place++);
    if (!name.empty()) values.emplace_back(name, count == 0 ? 0 : sum / count);
  }
  return values;
}

at::Tensor StepNumbers::expert_tokens() const {
  const auto first = figures_at + 2 * std::ssize(figures_);
  return host_.narrow(0, first, host_.numel() - first).view(experts_);
}

void add_expert_load(monitor::Values& values, const at::Tensor& tokens) {
  if (tokens.numel() == 0) return;
  const auto experts = tokens.sum(0);
  for (std::int64_t e = 0; e < experts.numel(); ++e)
    values.emplace_back(cat("expert_tokens_", e), experts[e].item<double>());
  const auto mean = tokens.mean(1).clamp_min(1e-300);  // a step without tokens: 0 / 0 is 0
  values.emplace_back("expert_load_max", (tokens.amax(1) / mean).max().item<double>());
}

Step::Step(session::Session& session)
    : session_(session),
      hooks_(session),
      reached_(session),
      updates_(*session.job->config.optimizer, setup::loss_scaling_of(*session.job->config.train).value(),
               session.device),
      micro_steps_(session, updates_.loss_scale(), graph_setting(session)) {}

StepNumbers Step::gradients(const StepInput& input, const std::vector<double>& counts) {
  // A step without any target still runs, like the others' collectives: its gradients are zero.
  auto sums = micro_steps_.run(input, divisors_of(input, counts), tracer_.get());
  auto norms = session_.engine->squared_grad_norms();
  // The data ranks' shares of the auxiliary loss add up, as their loss sums do.
  sums.auxiliary = sums.auxiliary / static_cast<double>(session_.job->topology.batch.accumulation);
  StepNumbers numbers(sums, std::move(norms), figures(input, counts, sums));
  numbers.sum(session_);
  if (!reached_.is_done()) {
    numbers.read();
    reached_.run(numbers.expert_tokens());
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
std::vector<strategy::Figure> Step::figures(const StepInput& input, const std::vector<double>& counts,
                                            const StepSums& sums) {
  auto all = hooks_.figures();
  const auto& specs = session_.job->plugins.minimised->plan().figures;
  const bool gives_counts = session_.runner->stages().has_end() && session_.job->model->sequence_cut.speaks;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, base, better] = specs[i];
    const auto count = at::full({}, gives_counts ? input.counts.at(base) : 0.0, sums.figures.options());
    all.push_back({counts.at(base) == 0 ? "" : name, sums.figures[static_cast<std::int64_t>(i)], count});
  }
  return all;
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
  if (tracer_->units()) trace_units(*session_.runner, tracer_);
}

void Step::during_evaluation(std::int64_t steps_done, const std::function<void()>& call) {
  if (hooks_.change_evaluation() && before_update_) before_update_();
  const Traced evaluation(tracer_.get(), monitor::Span::evaluation, "evaluation");
  hooks_.during_evaluation(steps_done, call);
}

}  // namespace capstan::step
