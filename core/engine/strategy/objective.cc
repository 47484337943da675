#include "strategy/objective.h"

#include <ATen/ATen.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace capstan::objective {

Objective::~Objective() = default;

at::Tensor Objective::head(std::size_t pass, const nn::HeadInput& /*input*/, const Others& /*others*/) const {
  throw Error(cat("plan() has HeadOutput::function for pass ", pass, ", and there is no function head()"),
              "write head() (capstan/objective/objective.h), or ask for another output");
}

std::vector<at::Tensor> Objective::baselines(const Others& /*others*/, const nn::Batch& /*batch*/) const { return {}; }

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

void check_sequences(const Plan& plan, const PassSpec& pass) {
  const auto& own = pass.sequences;
  if (own.empty()) return;
  const bool ascends = std::adjacent_find(own.begin(), own.end(), std::greater_equal<>()) == own.end();
  if (!ascends || static_cast<std::int64_t>(own.back()) >= plan.sequences)
    refuse(cat("lets pass '", pass.name, "' go over sequences that do not ascend within a sample's ", plan.sequences));
  if (pass.output == nn::HeadOutput::states || pass.output == nn::HeadOutput::values)
    refuse(cat("wants states or values of some sequences, of pass '", pass.name, "'"));
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
    check_sequences(plan, pass);
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

// Where other micro-batches' forwards come before the matrix is needed, it is no longer there.
void check_states(const Plan& plan) {
  const auto states = std::find_if(plan.passes.begin(), plan.passes.end(),
                                   [](const auto& pass) { return pass.output == nn::HeadOutput::states; });
  if (states == plan.passes.end()) return;
  if (!plan.baselines.empty()) refuse(cat("has baselines, and wants states of pass '", states->name, "'"));
  const auto some =
      std::find_if(plan.passes.begin(), plan.passes.end(), [](const auto& pass) { return !pass.sequences.empty(); });
  if (some != plan.passes.end())
    refuse(cat("has pass '", some->name, "' over some sequences, and wants states of pass '", states->name, "'"));
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
    check_counts(plan_, plan_.baselines, "a baseline");
    check_states(plan_);
  });
  while (!plan_.passes[trained_].gradient) ++trained_;
  choices_.push_back(plan_.passes[trained_].sequences);
  for (std::size_t i = 0; i < plan_.passes.size(); ++i) {
    if (choice_of(i) == choices_.size()) choices_.push_back(plan_.passes[i].sequences);
  }
}

std::size_t Objective::choice_of(std::size_t pass) const {
  const auto found = std::find(choices_.begin(), choices_.end(), plan_.passes.at(pass).sequences);
  return static_cast<std::size_t>(found - choices_.begin());
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

at::Tensor Objective::head(std::size_t pass, const nn::HeadInput& input, const objective::Others& others) const {
  return plugin::guard(plugin_, "head", [&] { return object_->head(pass, input, others); });
}

std::vector<at::Tensor> Objective::baselines(const objective::Others& others, const nn::Batch& batch) const {
  return plugin::guard(plugin_, "baselines", [&] {
    auto sums = object_->baselines(others, batch);
    check_scalars(sums, plan_.baselines.size(), "baselines");
    return sums;
  });
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

}  // namespace capstan::strategy
