#include "distill.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "tokens/same_tokens.h"
#include "tokens/teacher_fields.h"

namespace distill {

using namespace capstan;

namespace {

constexpr std::size_t student_pass = 0, teacher_pass = 1;

// Several tensors of a chunk's logits exist at a time.
DivergenceSettings settings(const Comparison& comparison, const nn::HeadSplit& split) {
  constexpr std::int64_t at_a_time = 4;
  return {comparison.temperature, std::max<std::int64_t>(1, split.chunk_rows / at_a_time), split.part, split.cap};
}

// What the data say of a teacher, at the batch's loss_rows.
TeacherWords words_of_fields(const nn::Batch& batch, const Comparison& comparison) {
  const auto numbers = [&](const auto& name) {
    std::vector<at::Tensor> words;
    for (std::int64_t n = 1; n <= comparison.words; ++n) words.push_back(batch.field(name(n)).flatten());
    const auto all = at::stack(words, 1);
    return batch.loss_rows.defined() ? all.index_select(0, batch.loss_rows) : all;
  };
  return {numbers(tokens::teacher_word), numbers(tokens::teacher_log_probability), comparison.rest};
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(what, "take a model whose head is an nn::VocabularyHead");
}

}  // namespace

Distill::Distill(config::Options<DistillOptions> options) : options_(std::move(options)) {
  Diagnostics ignored;  // check() says them
  comparison_ = comparison_of(options_, ignored);
}

void Distill::check(Diagnostics& diagnostics) const { (void)comparison_of(options_, diagnostics); }

objective::Plan Distill::plan() const {
  const auto given = options_->top_k > 0 ? nn::HeadOutput::function : nn::HeadOutput::states;
  objective::Plan plan;
  plan.passes = {{.name = "student", .output = nn::HeadOutput::function}};
  if (is_teacher_in_data()) {
    using Field = data::FieldSpec;
    // Data that have the last one of these have all.
    plan.fields = {{tokens::teacher_word(comparison_.words), Field::Type::int64, Field::Per::token},
                   {tokens::teacher_log_probability(comparison_.words), Field::Type::float32, Field::Per::token}};
  } else {
    plan.models = {{"teacher", "teacher"}};
    plan.passes.push_back({.name = "teacher", .output = given, .gradient = false, .model = 0});
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

Teacher Distill::teacher_of(const nn::Batch& batch, const objective::Others& others) const {
  if (is_teacher_in_data()) return words_of_fields(batch, comparison_);
  const auto& output = others.outputs[teacher_pass];
  const bool is_of_words = comparison_.words > 0;
  if (output.dim() != (is_of_words ? 3 : 2))
    refuse("the model of pass 'teacher' gives something else than the objective asks its head for");
  if (is_of_words) return TeacherWords{output[0].to(at::kLong), output[1], comparison_.rest};
  const auto cap = others.caps.empty() ? std::nullopt : others.caps[teacher_pass];
  return TeacherStates{output, others.matrices[teacher_pass], cap};
}

at::Tensor Distill::head(std::size_t pass, const nn::HeadInput& input, const objective::Others& others) const {
  const auto compared = settings(comparison_, input.split);
  if (pass == teacher_pass) {
    const auto found = likeliest_words(input.states, input.matrix, comparison_.words, compared);
    return at::stack({found.ids.to(at::kDouble), found.log_probabilities.to(at::kDouble)});
  }
  const auto loss = input.loss_sum();
  const auto divergence = std::visit(
      [&](const auto& says) {
        return chunked_linear_divergence(input.states, input.matrix, input.labels, says, compared);
      },
      teacher_of(input.batch, others));
  return at::stack({loss, divergence});
}

std::vector<double> Distill::counts(const data::HostBatch& batch) const {
  return {static_cast<double>(batch.target_tokens)};
}

objective::Sums Distill::sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const {
  if (outputs[student_pass].dim() != 1) refuse("the trained model's head gives no divergence from a teacher");
  const auto cross_entropy = outputs[student_pass].select(0, 0), divergence = outputs[student_pass].select(0, 1);
  return {{cross_entropy, divergence}, {cross_entropy.detach(), divergence.detach()}};
}

}  // namespace distill

CAPSTAN_OBJECTIVE("distill", "0.1.0", "what another model says of each next word, and the labels' cross entropy",
                  distill::Distill, distill::DistillOptions)
