#include "predict/dry_run.h"

#include <ATen/ATen.h>

#include "data/core_fields.h"
#include "data/sample_form.h"

namespace capstan::predict {
namespace {

at::TensorOptions ids() { return at::TensorOptions().device(at::kMeta).dtype(at::kLong); }

nn::Field meta_field(const data::FieldSpec& spec, std::int64_t samples, std::int64_t rows, std::int64_t columns) {
  using Per = data::FieldSpec::Per;
  const auto options = spec.type == data::FieldSpec::Type::float32 ? ids().dtype(at::kFloat) : ids();
  if (spec.per == Per::token) return {spec.name, at::empty({rows, columns}, options)};
  return {spec.name, at::empty({spec.per == Per::sample ? samples : rows}, options)};
}

nn::Batch longest_batch(const DryRunOf& what, const data::SampleForm& form, const nn::SequenceCut& cut,
                        std::int64_t samples, bool training) {
  const auto columns = what.samples.longest_row;
  const auto rows = samples * form.sequences;
  nn::Batch batch;
  batch.samples.count = samples;
  batch.samples.per_sample = form.sequences;
  for (const auto& field : data::fields_of(form))
    batch.samples.fields.push_back(meta_field(field, samples, rows, columns));
  batch.tokens = at::empty({rows, columns}, ids());
  batch.labels = at::empty({rows, columns}, ids());
  batch.positions = at::empty({rows, columns}, ids());
  batch.real = at::empty({rows, columns}, ids().dtype(at::kBool));
  batch.sample_ids = at::empty({rows}, ids());
  batch.training = training;
  if (what.plugins.data_parts.options->packing) {
    // One sequence a row is as much memory as many short ones.
    nn::Documents documents;
    documents.packed = at::empty({rows * columns}, ids());
    documents.alone = at::empty({rows * columns}, ids());
    documents.sample_ids = batch.sample_ids;
    documents.count = rows;
    documents.longest = columns;
    documents.bounds = at::empty({rows + 1}, ids().dtype(at::kInt));
    documents.sequences = at::empty({rows}, ids());
    batch.documents = documents;
  }
  return cut.own ? nn::cut_columns(std::make_shared<const nn::Batch>(std::move(batch)), cut) : batch;
}

}  // namespace

std::vector<nn::Batch> longest_batches(const DryRunOf& what, const nn::SequenceCut& cut, std::int64_t samples,
                                       bool training) {
  std::vector<nn::Batch> batches;
  for (const auto& only : what.plugins.minimised->choices()) {
    const auto form = data::with_only(what.plugins.data_parts.form, only);
    batches.push_back(longest_batch(what, form, cut, samples, training));
  }
  return batches;
}

std::int64_t sequences_of_others(const DryRunOf& what) {
  const auto& objective = *what.plugins.minimised;
  const auto all = what.plugins.data_parts.form.sequences;
  const auto count = [&](std::size_t pass) {
    const auto& choice = objective.choices()[objective.choice_of(pass)];
    return choice.empty() ? all : std::ssize(choice);
  };
  std::int64_t others = 0;
  for (std::size_t i = 0; i < objective.plan().passes.size(); ++i) others += i == objective.trained() ? 0 : count(i);
  const auto own = count(objective.trained());
  return (others + own - 1) / own;
}

nn::Batch longest_prompts(std::int64_t rows, std::int64_t columns) {
  nn::Batch batch;
  batch.tokens = at::empty({rows, columns}, ids());
  batch.positions = at::empty({rows, columns}, ids());
  batch.last = at::empty({rows}, ids());
  batch.sample_ids = at::empty({rows}, ids());
  return batch;
}

}  // namespace capstan::predict
