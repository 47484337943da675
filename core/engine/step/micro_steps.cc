#include "step/micro_steps.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <capstan/base/text.h>

#include <utility>

#include "step/to_device.h"

namespace capstan::step {

MicroSteps::MicroSteps(const Session& session, const LossScale& scale, GraphSetting graphs)
    : session_(session),
      scale_(scale),
      program_(session.job->model->program(static_cast<int>(session.job->topology.batch.accumulation))),
      layers_(session.job->model->units),
      graphs_(session, std::move(graphs)),
      passes_(
          session.job->plugins.minimised,
          [all = session.interpreter.get()](const nn::Batch& batch) { return all->evaluate(batch); },
          session.frozen_runners()),
      others_(static_cast<std::size_t>(session.job->topology.batch.accumulation)) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(session.device);
  const auto& plan = passes_.objective().plan();
  sums_.objective_figures = at::zeros({static_cast<std::int64_t>(plan.figures.size())}, doubles);
  if (plan.terms.size() > 1 || plan.terms.front().weight != 1)
    factors_ = at::ones({static_cast<std::int64_t>(plan.terms.size())}, doubles);
  sums_.loss = at::zeros({}, doubles);
  sums_.auxiliary = at::zeros({}, doubles);
  sums_.gives_experts = session.job->topology.represents_stage();
  sums_.gives_losses = sums_.gives_experts && session.runner->stages().has_end();
}

StepNumbers MicroSteps::run(const StepInput& input, const std::vector<double>& counts) {
  input_ = &input;
  const auto end_of_step = c10::make_scope_exit([this] { later_.reset(); });
  begin(counts);
  if (runs_ahead()) run_others(counts);
  session_.interpreter->run(program_, *this);
  return sums_;
}

nn::Batch MicroSteps::batch_of(int micro) const {
  return training_batch(session_, input_->micro[static_cast<std::size_t>(micro)], input_->step);
}

nn::Batch MicroSteps::batch(int micro) {
  return passes_.trained(batch_of(micro), others_[static_cast<std::size_t>(micro)]);
}

void MicroSteps::before(const strategy::Action& action) {
  later_.reset();
  if (action.kind != strategy::Action::Kind::backward_weight) return;
  later_.emplace(tracer_, monitor::Span::backward,
                 cat("weights of micro-batch ", action.micro, " in stage ", action.stage));
}

void MicroSteps::before_backward(int index) { session_.engine->begin_backward(index); }

// The micro-batch's passes without gradient come first, and are recorded with the rest, unless all ran ahead.
void MicroSteps::forward_backward(Interpreter& interpreter, int micro) {
  if (runs_ahead()) return interpreter.forward_backward(micro, batch(micro), *this);
  const auto all = [this, &interpreter, micro](const nn::Batch& batch) {
    auto& others = others_[static_cast<std::size_t>(micro)];
    others = passes_.run_others({batch});
    interpreter.forward_backward(micro, passes_.trained(batch, others), *this);
  };
  if (!graphs_.run(*input_, static_cast<std::size_t>(micro), all)) all(batch_of(micro));
}

// Where each forward is followed by its backward, passes without gradient run when the micro-batch's turn comes.
bool MicroSteps::runs_ahead() const {
  const auto& plan = passes_.objective().plan();
  const auto micros = static_cast<int>(others_.size());
  const bool has_baselines = !plan.baselines.empty(), has_choices = passes_.objective().choices().size() > 1;
  return has_baselines || has_choices || (plan.passes.size() > 1 && program_ != strategy::accumulation(1, micros));
}

// Ranks that compute the same sums give them once; those of ranks that share tokens are parts.
void MicroSteps::run_others(const std::vector<double>& counts) {
  const auto count = std::ssize(passes_.objective().plan().baselines);
  auto sums = at::zeros({count}, sums_.loss.options());
  for (int micro = 0; micro < static_cast<int>(others_.size()); ++micro) {
    const auto place = static_cast<std::size_t>(micro);
    const auto batches = all_to_device(session_, input_->micro[place]);
    others_[place] = passes_.run_others(batches);
    if (count > 0 && sums_.gives_losses) sums += passes_.baselines(batches.front(), others_[place]);
  }
  if (count == 0) return;
  session_.norm_group->all_reduce(sums, comm::ReduceOp::sum, "all-reduce the objective's baselines");
  passes_.tell(sums, counts);
}

void MicroSteps::begin(const std::vector<double>& counts) {
  divisor_ = strategy::divisor(counts.at(passes_.objective().base()));
  set_factors(counts);
  sums_.loss.zero_();
  sums_.objective_figures.zero_();
  sums_.auxiliary.zero_();
  if (sums_.expert_tokens.defined()) sums_.expert_tokens.zero_();
  if (seed_.defined()) fill_seeds();
  if (session_.runner->stages().is_whole() || layers_.count() == 0) return;
  // Ranks of other stages know what comes at the model's end, and give numbers of the same shape.
  sums_.has_auxiliary = layers_.are_balanced();
  if (sums_.expert_tokens.defined()) return;
  const auto experts = session_.job->plugins.model_facts.num_experts;
  sums_.expert_tokens = at::zeros({layers_.count(), experts}, sums_.loss.options());
}

// Graphs read them from the same memory in every step.
void MicroSteps::set_factors(const std::vector<double>& counts) {
  if (!factors_.defined()) return;
  const auto factors = passes_.objective().factors(counts);
  for (std::size_t i = 0; i < factors.size(); ++i) factors_[static_cast<std::int64_t>(i)].fill_(factors[i]);
}

void MicroSteps::fill_seeds() {
  if (!sums_.has_auxiliary) {
    seed_.copy_(scale_.seed(divisor_, seed_.options()));
    return;
  }
  const auto one = scale_.seed(1.0, seed_.options());
  seed_.copy_(one / divisor_);
  auxiliary_seed_.copy_(one / session_.job->topology.batch.accumulation);
}

// What of a micro-batch's numbers is known where a stage ends: its experts' tokens, and at the model's end its losses.
void MicroSteps::computed(const MicroContext& context) {
  const auto& out = context.out;
  if (!out.expert_tokens.empty()) {
    const auto tokens = at::stack(out.expert_tokens);
    if (!sums_.expert_tokens.defined())
      sums_.expert_tokens = at::zeros({layers_.count(), tokens.size(1)}, tokens.options());
    sums_.expert_tokens.narrow(0, layers_.first_of(session_.runner->units()[context.stage->first]), tokens.size(0)) +=
        tokens;
  }
  if (context.stage->after >= 0) return;
  sums_.has_auxiliary = !out.sums.empty();
  for (const auto& auxiliary : out.sums) sums_.auxiliary += auxiliary.detach().to(at::kDouble);
}

at::Tensor MicroSteps::minimised(const std::vector<at::Tensor>& terms) const {
  if (!factors_.defined()) return terms.front();
  at::Tensor sum;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto term = terms[i] * factors_[static_cast<std::int64_t>(i)].to(terms[i].scalar_type());
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

// Recorded in a graph it runs again with other numbers in the same memory: where backward starts is in memory too.
void MicroSteps::start(int micro, MicroContext& context) {
  const auto& out = context.out;
  const auto sums = passes_.sums(context.batch, std::move(others_[static_cast<std::size_t>(micro)]), out.states);
  session_.engine->leave_thread();
  const auto loss = minimised(sums.terms);
  sums_.loss += loss.detach().to(at::kDouble);
  if (!sums.figures.empty()) sums_.objective_figures += at::stack(sums.figures).detach().to(at::kDouble);
  if (!seed_.defined()) {
    seed_ = at::empty({}, loss.options());
    auxiliary_seed_ = at::empty({}, loss.options());
    fill_seeds();
  }
  if (out.sums.empty()) {
    context.roots = {loss};
    context.gradients = {seed_};
    return;
  }
  auto objective = loss * seed_;
  for (const auto& auxiliary : out.sums) objective = objective + auxiliary * auxiliary_seed_;
  context.roots = {objective};
  context.gradients = {at::ones({}, objective.options())};
}

}  // namespace capstan::step
