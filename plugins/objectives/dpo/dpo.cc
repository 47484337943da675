#include "dpo.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <utility>

#include "tokens/same_tokens.h"

namespace dpo {

using namespace capstan;

namespace {

// Sums are of float64, so that long answers lose nothing.
at::Tensor by_pair(const at::Tensor& values, const nn::Batch& batch) {
  return batch.sum_by_sequence(values.to(at::kDouble)).view({batch.samples.count, 2});
}

at::Tensor answer_tokens(const nn::Batch& batch) {
  const auto labels = batch.labels.flatten();
  const auto chosen = batch.loss_rows.defined() ? labels.index_select(0, batch.loss_rows) : labels;
  return by_pair(chosen.ne(data::ignored_label), batch);
}

}  // namespace

Dpo::Dpo(config::Options<DpoOptions> options) : options_(std::move(options)) {
  Diagnostics ignored;  // check() says them
  preference_ = preference_of(options_, ignored);
}

void Dpo::check(Diagnostics& diagnostics) const { (void)preference_of(options_, diagnostics); }

objective::Plan Dpo::plan() const {
  const auto output = nn::HeadOutput::log_probabilities;
  objective::Plan plan;
  plan.passes.push_back({.name = "policy", .output = output});
  if (has_reference_pass())
    plan.passes.push_back({.name = "reference", .output = output, .gradient = false, .adapters = false});
  if (has_reference_model()) {
    plan.models = {{"reference", "reference"}};
    plan.passes.back().model = 0;
    plan.passes.back().adapters = true;
  }
  if (preference_.needs_reference() && !has_reference_pass())
    plan.fields = {{reference_field, data::FieldSpec::Type::float32, data::FieldSpec::Per::sequence}};
  plan.counts = {"pairs"};
  plan.terms = {{}};
  using objective::Better;
  plan.figures = {{"reward_chosen", 0, Better::higher},
                  {"reward_rejected", 0, Better::lower},
                  {"reward_margin", 0, Better::higher},
                  {"accuracy", 0, Better::higher}};
  plan.sequences = 2;
  plan.meaning = "a preferred answer and a rejected one";
  return plan;
}

void Dpo::check_models(const objective::KnownModel& trained, const std::vector<objective::KnownModel>& others,
                       Diagnostics& diagnostics) const {
  for (const auto& other : others) {
    const auto apart = tokens::difference(trained.folder, other.folder);
    if (apart.empty()) continue;
    diagnostics.add(other.where, cat("the reference has other tokens than the model that is trained: ", apart),
                    "name a model with the same tokenizer");
  }
}

std::vector<double> Dpo::counts(const data::HostBatch& batch) const {
  return {static_cast<double>(batch.real_samples)};
}

at::Tensor Dpo::reference(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const {
  if (!preference_.needs_reference()) return {};
  if (has_reference_pass()) return by_pair(outputs[1], batch);
  return batch.field(reference_field).to(at::kDouble).view({batch.samples.count, 2});
}

objective::Sums Dpo::sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const {
  const auto outcome = preference_loss(
      preference_, {by_pair(outputs[0], batch), reference(outputs, batch), answer_tokens(batch), batch.has_sample()});
  const auto margin = outcome.chosen_reward - outcome.rejected_reward;
  return {{outcome.loss}, {outcome.chosen_reward, outcome.rejected_reward, margin, outcome.correct}};
}

}  // namespace dpo

CAPSTAN_OBJECTIVE("dpo", "0.1.0", "preferences between two answers: DPO, IPO, ORPO or SimPO", dpo::Dpo, dpo::DpoOptions)
