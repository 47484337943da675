#include "kto.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "tokens/same_tokens.h"

namespace kto {

using namespace capstan;

namespace {

// What passes give, and which of a sample's sequences they go over.
enum Pass : std::size_t { policy, policy_of_others, reference };
constexpr std::size_t own = 0, other = 1;
constexpr const char* label = "label";

at::Tensor reference_of(std::size_t sequence, const std::vector<at::Tensor>& outputs, const nn::Batch& batch) {
  return outputs[reference].view({batch.samples.count, 2}).select(1, static_cast<std::int64_t>(sequence));
}

}  // namespace

void KtoOptions::describe(config::OptionTable<KtoOptions>& t) {
  t.add("reference", &KtoOptions::reference)
      .doc(
          "what an answer's log-probability is compared with. base: that of the model without its adapters, where "
          "nothing else is trained; start: that of the model as the run began, which is a second one in memory; else a "
          "model's folder or hub id");
  t.add("beta", &KtoOptions::beta).above(0).doc("how much a difference of log-probabilities counts");
  t.add("desirable_weight", &KtoOptions::desirable_weight)
      .min(0)
      .doc(
          "the weight of each answer that is wanted. With undesirable_weight it makes up for unequal numbers: the "
          "paper "
          "wants (weight x number) of the one 1 to 4/3 times that of the other");
  t.add("undesirable_weight", &KtoOptions::undesirable_weight)
      .min(0)
      .doc("the weight of each answer that is not wanted");
}

void Kto::check(Diagnostics& diagnostics) const {
  if (options_->reference == "data") {
    diagnostics.add(options_.where(&KtoOptions::reference),
                    "objective.reference is \"data\", and kto compares with a model",
                    "use \"base\", \"start\", or a model's folder");
  }
  if (options_->desirable_weight + options_->undesirable_weight > 0) return;
  diagnostics.add(options_.where(&KtoOptions::desirable_weight), "both weights of kto are 0: nothing is learned",
                  "set one above 0");
}

objective::Plan Kto::plan() const {
  const auto output = nn::HeadOutput::log_probabilities;
  objective::Plan plan;
  plan.passes = {{.name = "policy", .output = output, .sequences = {own}},
                 {.name = "policy of other answers", .output = output, .gradient = false, .sequences = {other}},
                 {.name = "reference", .output = output, .gradient = false, .sequences = {own, other}}};
  plan.passes[reference].adapters = options_->reference != "base";
  if (plan.passes[reference].adapters) {
    plan.models = {{"reference", "reference"}};
    plan.passes[reference].model = 0;
  }
  plan.counts = {"answers", "wanted answers", "unwanted answers"};
  plan.terms = {{}};
  using objective::Better;
  plan.figures = {{"reward_chosen", 1, Better::higher}, {"reward_rejected", 2, Better::lower}, {"kl", 0}};
  plan.sequences = 2;
  plan.meaning = "an answer with a label and another prompt's answer";
  plan.fields = {{label, data::FieldSpec::Type::int64, data::FieldSpec::Per::sample}};
  plan.baselines = {{"kl", 0}};
  return plan;
}

void Kto::check_models(const objective::KnownModel& trained, const std::vector<objective::KnownModel>& others,
                       Diagnostics& diagnostics) const {
  for (const auto& one : others) {
    const auto apart = tokens::difference(trained.folder, one.folder);
    if (apart.empty()) continue;
    diagnostics.add(one.where, cat("the reference has other tokens than the model that is trained: ", apart),
                    "name a model with the same tokenizer");
  }
}

std::vector<double> Kto::counts(const data::HostBatch& batch) const {
  const auto field = std::find_if(batch.fields.begin(), batch.fields.end(),
                                  [](const data::HostField& one) { return one.spec.name == label; });
  CAPSTAN_ASSERT(field != batch.fields.end());
  const auto& labels = std::get<std::vector<std::int64_t>>(field->values);  // 0 where there is no sample
  const auto wanted = static_cast<double>(std::ssize(labels) - std::count(labels.begin(), labels.end(), 0));
  const auto all = static_cast<double>(batch.real_samples);
  return {all, wanted, all - wanted};
}

std::vector<at::Tensor> Kto::baselines(const objective::Others& others, const nn::Batch& batch) const {
  const auto ratio = others.outputs[policy_of_others] - reference_of(other, others.outputs, batch);
  return {(ratio * batch.has_sample()).sum()};
}

objective::Sums Kto::sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const {
  const auto real = batch.has_sample().to(at::kDouble);
  const auto divergence = batch.pass.baselines[0];
  const auto outcome =
      kto_loss({options_->beta, options_->desirable_weight, options_->undesirable_weight},
               {outputs[policy] - reference_of(own, outputs, batch), batch.field(label).ne(0), real}, divergence);
  return {{outcome.loss}, {outcome.chosen_reward, outcome.rejected_reward, (divergence * real).sum()}};
}

}  // namespace kto

CAPSTAN_OBJECTIVE("kto", "0.1.0", "answers that are wanted or not: KTO", kto::Kto, kto::KtoOptions)
