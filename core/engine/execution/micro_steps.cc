#include "execution/micro_steps.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <optional>
#include <utility>

#include "execution/tracing.h"

namespace capstan::execution {

MicroSteps::MicroSteps(const session::Session& session, GraphSetting graphs)
    : session_(session),
      accumulation_(session.job->topology.batch.accumulation),
      program_(session.job->model->program(static_cast<int>(accumulation_))),
      layers_(session.job->model->units),
      graphs_(session, std::move(graphs)),
      passes_(
          session.job->plugins.minimised,
          [all = session.interpreter.get()](const nn::Batch& batch) { return all->evaluate(batch); },
          session.frozen_runners()),
      others_(static_cast<std::size_t>(accumulation_)) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(session.device);
  const auto& plan = passes_.objective().plan();
  const bool in_turn = program_ == strategy::accumulation(1, static_cast<int>(accumulation_));
  runs_ahead_ = !plan.baselines.empty() || (plan.passes.size() > 1 && !in_turn);
  sums_.figures = at::zeros({static_cast<std::int64_t>(plan.figures.size())}, doubles);
  if (plan.terms.size() > 1 || plan.terms.front().weight != 1)
    factors_ = at::ones({static_cast<std::int64_t>(plan.terms.size())}, doubles);
  sums_.loss = at::zeros({}, doubles);
  sums_.auxiliary = at::zeros({}, doubles);
}

void MicroSteps::run(const StepInput& input, const std::vector<double>& counts, const LossScale& scale,
                     monitor::Tracer* tracer) {
  begin(counts, scale);
  if (runs_ahead_) run_others(input, counts);
  std::optional<Traced> later;
  strategy::Interpreter::Calls calls;
  calls.before = [&](const strategy::Action& action) {
    later.reset();
    if (action.kind != strategy::Action::Kind::backward_weight) return;
    later.emplace(tracer, monitor::Span::backward,
                  cat("weights of micro-batch ", action.micro, " in stage ", action.stage));
  };
  calls.batch = [&](int micro) {
    return passes_.trained(batch_of(input, micro), others_[static_cast<std::size_t>(micro)]);
  };
  calls.before_backward = [&](int index) { session_.engine->begin_backward(index); };
  calls.computed = [&](const auto& stage, const nn::Hidden& out) { add(stage, out); };
  calls.start = [&](int micro, const nn::Batch& batch, const nn::Hidden& out) { return start(micro, batch, out); };
  calls.whole = [&](int micro, const MicroGraphs::Body& both) {
    if (runs_ahead_) return both(calls.batch(micro));
    const auto all = [&passes = passes_, &others = others_[static_cast<std::size_t>(micro)],
                      both](const nn::Batch& batch) {
      others = passes.run_others(batch);
      both(passes.trained(batch, others));
    };
    if (!graphs_.run(input, static_cast<std::size_t>(micro), all)) all(batch_of(input, micro));
  };
  session_.interpreter->run(program_, calls);
}

nn::Batch MicroSteps::batch_of(const StepInput& input, int micro) const {
  return training_batch(session_, input.micro[static_cast<std::size_t>(micro)], input.step);
}

// Ranks that compute the same sums give them once; those of ranks that share tokens are parts.
void MicroSteps::run_others(const StepInput& input, const std::vector<double>& counts) {
  const auto count = std::ssize(passes_.objective().plan().baselines);
  const bool gives = session_.job->topology.speaks_for_stage() && session_.runner->stages().has_end();
  auto sums = at::zeros({count}, sums_.loss.options());
  for (int micro = 0; micro < accumulation_; ++micro) {
    const auto batch = batch_of(input, micro);
    auto& others = others_[static_cast<std::size_t>(micro)];
    others = passes_.run_others(batch);
    if (count > 0 && gives) sums += passes_.baselines(batch, others);
  }
  if (count == 0) return;
  session_.norm_group->all_reduce(sums, comm::ReduceOp::sum, "all-reduce the objective's baselines");
  passes_.tell(sums, counts);
}

void MicroSteps::begin(const std::vector<double>& counts, const LossScale& scale) {
  divisor_ = strategy::divisor(counts.at(passes_.objective().base()));
  scale_ = &scale;
  set_factors(counts);
  sums_.loss.zero_();
  sums_.figures.zero_();
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
    seed_.copy_(scale_->seed(divisor_, seed_.options()));
    return;
  }
  const auto one = scale_->seed(1.0, seed_.options());
  seed_.copy_(one / divisor_);
  auxiliary_seed_.copy_(one / accumulation_);
}

// What of a micro-batch's numbers is known where a stage ends: its experts' tokens, and at the model's end its losses.
void MicroSteps::add(const strategy::RankStage& stage, const nn::Hidden& out) {
  if (!out.expert_tokens.empty()) {
    const auto tokens = at::stack(out.expert_tokens);
    if (!sums_.expert_tokens.defined())
      sums_.expert_tokens = at::zeros({layers_.count(), tokens.size(1)}, tokens.options());
    sums_.expert_tokens.narrow(0, layers_.first_of(session_.runner->units()[stage.first]), tokens.size(0)) += tokens;
  }
  if (stage.after >= 0) return;
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
strategy::Start MicroSteps::start(int micro, const nn::Batch& batch, const nn::Hidden& out) {
  const auto sums = passes_.sums(batch, std::move(others_[static_cast<std::size_t>(micro)]), out.states);
  session_.engine->leave_thread();
  const auto loss = minimised(sums.terms);
  sums_.loss += loss.detach().to(at::kDouble);
  if (!sums.figures.empty()) sums_.figures += at::stack(sums.figures).detach().to(at::kDouble);
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
