#include "distill.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <utility>

#include "tokens/same_tokens.h"
#include "tokens/teacher_fields.h"

namespace distill {

using namespace capstan;

Distill::Distill(config::Options<DistillOptions> options) : options_(std::move(options)) {
  Diagnostics ignored;  // check() says them
  comparison_ = comparison_of(options_, ignored);
}

void Distill::check(Diagnostics& diagnostics) const { (void)comparison_of(options_, diagnostics); }

objective::Plan Distill::plan() const {
  const auto given = options_->top_k > 0 ? nn::HeadOutput::likeliest_words : nn::HeadOutput::states;
  objective::Plan plan;
  plan.passes = {{.name = "student", .output = nn::HeadOutput::divergence, .comparison = comparison_}};
  if (is_teacher_in_data()) {
    using Field = data::FieldSpec;
    // Data that have the last one of these have all.
    plan.fields = {{tokens::teacher_word(comparison_.words), Field::Type::int64, Field::Per::token},
                   {tokens::teacher_log_probability(comparison_.words), Field::Type::float32, Field::Per::token}};
  } else {
    plan.models = {{"teacher", "teacher"}};
    plan.passes[0].teacher = 1;
    plan.passes.push_back(
        {.name = "teacher", .output = given, .gradient = false, .model = 0, .comparison = comparison_});
  }
  plan.counts = {"target tokens"};
  const auto square = options_->temperature * options_->temperature;
  plan.terms = {{1 - options_->alpha}, {options_->alpha * square}};
  plan.figures = {{"cross_entropy", 0, objective::Better::lower}, {"divergence", 0, objective::Better::lower}};
  return plan;
}

void Distill::check_models(const objective::KnownModel& trained, const std::vector<objective::KnownModel>& others,
                           Diagnostics& diagnostics) const {
  const auto& teacher = others.front();
  const auto words = trained.facts.vocab_size, its_words = teacher.facts.vocab_size;
  if (words != its_words) {
    diagnostics.add(teacher.where,
                    cat("the teacher has a vocabulary of ", its_words, " (", teacher.folder,
                        "), and the model that is trained one of ", words, " (", trained.where, ")"),
                    "name a teacher of the same family, whose output matrix has as many rows");
  } else if (options_->top_k > words) {
    diagnostics.add(
        options_.where(&DistillOptions::top_k),
        cat(options_.name(&DistillOptions::top_k), " is ", options_->top_k, ", and there are ", words, " words"),
        "use fewer, or 0 for all");
  }
  if (const auto apart = tokens::difference(trained.folder, teacher.folder); !apart.empty()) {
    diagnostics.add(teacher.where, cat("the teacher has other tokens than the model that is trained: ", apart),
                    "name a teacher with the same tokenizer");
  }
}

std::vector<double> Distill::counts(const data::HostBatch& batch) const {
  return {static_cast<double>(batch.target_tokens)};
}

objective::Sums Distill::sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const {
  const auto cross_entropy = outputs[0].select(0, 0), divergence = outputs[0].select(0, 1);
  return {{cross_entropy, divergence}, {cross_entropy.detach(), divergence.detach()}};
}

}  // namespace distill

CAPSTAN_OBJECTIVE("distill", "0.1.0", "what another model says of each next word, and the labels' cross entropy",
                  distill::Distill, distill::DistillOptions)
