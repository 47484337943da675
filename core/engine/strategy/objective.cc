#include "strategy/objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <utility>

namespace capstan::objective {

Objective::~Objective() = default;

}  // namespace capstan::objective

namespace capstan::strategy {
namespace {

using objective::PassSpec;
using objective::Plan;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(cat("plan() ", what), "correct the objective's plan (capstan/objective/objective.h)");
}

// What computes the pass.
void check_model(const Plan& plan, const PassSpec& pass) {
  if (pass.model && *pass.model >= plan.models.size())
    refuse(cat("has pass '", pass.name, "' of model ", *pass.model, " of ", plan.models.size()));
  if (pass.model && pass.gradient) refuse(cat("trains pass '", pass.name, "', which another model computes"));
  if (pass.output == nn::HeadOutput::states && !pass.model)
    refuse(cat("wants states of pass '", pass.name, "', which the trained model computes: its matrix changes"));
}

bool teaches(const Plan& plan, std::size_t index) {
  if (index >= plan.passes.size()) return false;
  const auto& pass = plan.passes[index];
  return pass.output == nn::HeadOutput::states ||
         (pass.output == nn::HeadOutput::likeliest_words && pass.comparison.words > 0);
}

void check_teacher(const Plan& plan, const PassSpec& pass) {
  const bool diverges = pass.output == nn::HeadOutput::divergence;
  if (diverges ? !pass.gradient || !(pass.teacher || pass.comparison.words > 0) : pass.teacher.has_value())
    refuse(cat("has pass '", pass.name, "' with a teacher or a divergence, and not with both and a gradient"));
  if (pass.teacher && !teaches(plan, *pass.teacher))
    refuse(cat("has pass '", pass.name, "' whose teacher gives neither states nor likeliest words"));
}

void check_passes(const Plan& plan) {
  const auto with_gradient =
      std::count_if(plan.passes.begin(), plan.passes.end(), [](const PassSpec& pass) { return pass.gradient; });
  if (with_gradient != 1) refuse(cat("has ", with_gradient, " passes with a gradient, instead of one"));
  for (const auto& pass : plan.passes) {
    if (pass.output == nn::HeadOutput::last_logits)
      refuse(cat("wants logits of pass '", pass.name, "': heads give them for answers only"));
    if (pass.gradient && !pass.adapters) refuse(cat("trains pass '", pass.name, "' without adapters"));
    check_model(plan, pass);
    check_teacher(plan, pass);
  }
}

template <class Spec>
void check_counts(const Plan& plan, const std::vector<Spec>& specs, const char* what) {
  const auto wrong =
      std::find_if(specs.begin(), specs.end(), [&](const Spec& spec) { return spec.count >= plan.counts.size(); });
  if (wrong != specs.end()) refuse(cat("has ", what, " with count ", wrong->count, " of ", plan.counts.size()));
}

void check_size(std::size_t size, std::size_t wanted, const char* what) {
  if (size == wanted) return;
  throw Error(cat("it gives ", size, " ", what, ", its plan() has ", wanted), "give one for each, in their order");
}

void check_scalars(const std::vector<at::Tensor>& sums, std::size_t wanted, const char* what) {
  check_size(sums.size(), wanted, what);
  for (const auto& sum : sums) {
    if (!sum.defined() || sum.dim() != 0)
      throw Error(cat("it gives ", what, " that are no 0-dim tensors"), "give the sum over the micro-batch");
  }
}

// What the data say of a teacher, at the batch's loss_rows.
ops::TeacherWords words_of_fields(const nn::Batch& batch, const nn::Comparison& comparison) {
  const auto numbers = [&](const char* name) {
    std::vector<at::Tensor> words;
    for (std::int64_t n = 1; n <= comparison.words; ++n) words.push_back(batch.field(cat(name, n)).flatten());
    const auto all = at::stack(words, 1);
    return batch.loss_rows.defined() ? all.index_select(0, batch.loss_rows) : all;
  };
  return {numbers("teacher_word_"), numbers("teacher_log_probability_"), comparison.rest};
}

nn::Batch for_pass(nn::Batch batch, const PassSpec& pass) {
  batch.pass.output = pass.output;
  batch.pass.adapters = pass.adapters;
  batch.pass.comparison = pass.comparison;
  batch.pass.measured = pass.gradient;
  batch.training = batch.training && pass.gradient;
  return batch;
}

}  // namespace

Objective::Objective(std::string plugin, std::shared_ptr<const objective::Objective> object)
    : plugin_(std::move(plugin)), object_(std::move(object)) {
  plugin::guard(plugin_, "plan", [&] {
    plan_ = object_->plan();
    check_passes(plan_);
    if (plan_.terms.empty()) refuse("has no term to minimise");
    check_counts(plan_, plan_.terms, "a term");
    check_counts(plan_, plan_.figures, "a figure");
  });
  while (!plan_.passes[trained_].gradient) ++trained_;
}

bool Objective::needs_base() const {
  return std::any_of(plan_.passes.begin(), plan_.passes.end(), [](const auto& pass) { return !pass.adapters; });
}

void Objective::check_models(const objective::KnownModel& trained, const std::vector<objective::KnownModel>& others,
                             Diagnostics& diagnostics) const {
  plugin::guard(plugin_, "check_models", [&] { object_->check_models(trained, others, diagnostics); });
}

std::vector<double> Objective::counts(const data::HostBatch& batch) const {
  std::vector<double> counts;
  plugin::guard(plugin_, "counts", [&] {
    counts = object_->counts(batch);
    check_size(counts.size(), plan_.counts.size(), "counts");
  });
  return counts;
}

objective::Sums Objective::sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const {
  objective::Sums sums;
  plugin::guard(plugin_, "sums", [&] {
    sums = object_->sums(outputs, batch);
    check_scalars(sums.terms, plan_.terms.size(), "terms");
    check_scalars(sums.figures, plan_.figures.size(), "figures");
  });
  return sums;
}

double divisor(double count) { return count > 0 ? count : 1; }

std::vector<double> Objective::factors(const std::vector<double>& counts) const {
  std::vector<double> factors;
  const auto all = divisor(counts.at(base()));
  for (const auto& term : plan_.terms)
    factors.push_back(term.count == base() ? term.weight : term.weight * all / divisor(counts.at(term.count)));
  return factors;
}

nn::Batch Passes::trained(nn::Batch batch, const std::vector<at::Tensor>& others) const {
  const auto& pass = objective_->plan().passes[objective_->trained()];
  batch = for_pass(std::move(batch), pass);
  if (pass.output == nn::HeadOutput::divergence && !pass.teacher)
    batch.pass.teacher = words_of_fields(batch, pass.comparison);
  if (pass.teacher && !others.empty()) batch.pass.teacher = teacher_of(*pass.teacher, others);
  return batch;
}

ops::Teacher Passes::teacher_of(std::size_t pass, const std::vector<at::Tensor>& others) const {
  const auto& spec = objective_->plan().passes[pass];
  const auto& output = others[pass];
  const bool is_states = spec.output == nn::HeadOutput::states;
  if (output.dim() != (is_states ? 2 : 3)) {
    throw Error(cat("the model of pass '", spec.name, "' gives something else than the objective asks its head for"),
                "take a model whose head is an nn::VocabularyHead");
  }
  if (is_states) return ops::TeacherStates{output, models_.at(*spec.model)->matrix()};
  return ops::TeacherWords{output[0].to(at::kLong), output[1], spec.comparison.rest};
}

std::vector<at::Tensor> Passes::run_others(const nn::Batch& batch) const {
  const auto& passes = objective_->plan().passes;
  std::vector<at::Tensor> outputs(passes.size());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (i == objective_->trained()) continue;
    const auto own = for_pass(batch, passes[i]);
    outputs[i] = passes[i].model ? models_.at(*passes[i].model)->forward(own) : forward_(own).states;
  }
  return outputs;
}

objective::Sums Passes::sums(const nn::Batch& batch, std::vector<at::Tensor> others, const at::Tensor& output) const {
  for (auto* model : models_) model->release();  // the trained model's head has run
  if (batch.pass.output == nn::HeadOutput::divergence && output.dim() != 1) {
    throw Error("the trained model's head gives no divergence from a teacher",
                "take a model whose head is an nn::VocabularyHead");
  }
  others.resize(objective_->plan().passes.size());
  others[objective_->trained()] = output;
  return objective_->sums(others, batch);
}

objective::Sums Passes::evaluate(const nn::Batch& batch) const {
  auto others = run_others(batch);
  const auto own = trained(batch, others);
  const at::NoGradGuard no_grad;
  const auto output = forward_(own).states;
  return output.defined() ? sums(own, std::move(others), output) : objective::Sums();
}

}  // namespace capstan::strategy
