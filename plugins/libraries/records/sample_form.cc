// What samples are, by data.pairs, data.labels, data.numbers and data.teacher_words.
#include "jsonl_data.h"
#include "teacher.h"

#include <capstan/base/text.h>

namespace jsonl {

using namespace capstan;

std::vector<std::string> JsonlOptions::known_keys() const {
  auto known = numbers;
  if (labels) known.emplace_back("label");
  return known;
}

data::SampleForm JsonlData::form() const {
  data::SampleForm form;
  if (options_->pairs) {
    form.sequences = 2;
    form.meaning = "a preferred answer and a rejected one";
  } else if (options_->labels) {
    form.sequences = 2;
    form.meaning = "an answer with a label and another prompt's answer";
  }
  for (const auto& key : options_->numbers)
    form.fields.push_back({key, data::FieldSpec::Type::float32, data::FieldSpec::Per::sequence});
  if (options_->labels) form.fields.push_back({"label", data::FieldSpec::Type::int64, data::FieldSpec::Per::sample});
  const auto of_teacher = teacher_fields(options_->teacher_words);
  form.fields.insert(form.fields.end(), of_teacher.begin(), of_teacher.end());
  return form;
}

// Samples of two sequences are of answers alone.
void JsonlData::check_sequences(Diagnostics& diagnostics) const {
  const auto& o = options_;
  if (!o->pairs && !o->labels) return;
  const auto asking = o.name(o->pairs ? &JsonlOptions::pairs : &JsonlOptions::labels);
  if (o->pairs && o->labels) {
    diagnostics.add(o.where(&JsonlOptions::labels),
                    cat(o.name(&JsonlOptions::labels), " and ", asking, " are both set"),
                    "remove one: a line has two answers, or one with a label");
  }
  if (o->loss == "sequence") {
    diagnostics.add(o.where(&JsonlOptions::loss),
                    cat(o.name(&JsonlOptions::loss), " is \"sequence\", and with ", asking, " answers are learned"),
                    "remove it");
  }
  if (o->teacher_words > 0) {
    diagnostics.add(
        o.where(&JsonlOptions::teacher_words),
        cat(o.name(&JsonlOptions::teacher_words), " is set, and with ", asking, " no line has a teacher's words"),
        cat("remove it, or ", asking));
  }
}

}  // namespace jsonl
