#include "data/core_fields.h"

#include <capstan/base/error.h>

#include <algorithm>

#include "data/loss_rows.h"

namespace capstan::data {
namespace {

void put_tokens(const SequenceView& sequence, std::int64_t* to) {
  std::copy(sequence.tokens.begin(), sequence.tokens.end() - 1, to);
}

void put_labels(const SequenceView& sequence, std::int64_t* to) {
  for (std::size_t next = 1; next < sequence.tokens.size(); ++next)
    *to++ = sequence.is_target[next] ? sequence.tokens[next] : ignored_label;
}

std::int64_t first_id(std::int64_t before, const Document& next) { return next.begin == 0 ? next.id : before; }

std::int64_t length_with(std::int64_t before, const Document& next) { return before + next.length; }

// None stands for all positions.
std::int64_t listed_rows(const HostBatch& batch) {
  const auto rows = loss_rows(batch);
  return rows == batch.padded_tokens() ? 0 : rows;
}

std::vector<std::int64_t>& values_of(const CoreField& field, HostBatch& batch) {
  if (field.member != nullptr) return batch.*field.member;
  const auto found = std::find_if(batch.fields.begin(), batch.fields.end(),
                                  [&](const HostField& one) { return one.spec.name == field.name; });
  CAPSTAN_ASSERT(found != batch.fields.end());
  return std::get<std::vector<std::int64_t>>(found->values);
}

}  // namespace

const std::vector<CoreField>& core_fields() {
  static const std::vector<CoreField> fields{
      {"tokens", put_tokens, std::nullopt, &HostBatch::tokens},
      {"labels", put_labels, ignored_label, &HostBatch::labels},
      {"sample_ids", first_id, -1, &HostBatch::sample_ids},
      {"lengths", length_with, 0, &HostBatch::lengths},
      {"loss_rows", CoreField::OfBatch{listed_rows, loss_row_list}},
  };
  return fields;
}

std::int64_t size_of(const CoreField& field, const HostBatch& batch) {
  if (const auto* follows = std::get_if<CoreField::OfBatch>(&field.make)) return follows->size(batch);
  return std::holds_alternative<CoreField::OfRow>(field.make) ? batch.rows : batch.padded_tokens();
}

std::vector<FieldSpec> fields_of(const SampleForm& form) {
  auto fields = form.fields;
  for (const auto& field : core_fields()) {
    if (std::holds_alternative<CoreField::OfPositions>(field.make) && field.member == nullptr)
      fields.push_back({field.name, FieldSpec::Type::int64, FieldSpec::Per::token});
  }
  return fields;
}

void add_core_fields(HostBatch& batch, std::int64_t pad_id) {
  for (const auto& field : core_fields()) {
    if (std::holds_alternative<CoreField::OfBatch>(field.make)) continue;
    values_of(field, batch).assign(static_cast<std::size_t>(size_of(field, batch)), field.fill.value_or(pad_id));
  }
}

void put_core_fields(HostBatch& batch, const SequenceView& sequence, const Document& place) {
  for (const auto& field : core_fields()) {
    if (const auto* row = std::get_if<CoreField::OfRow>(&field.make)) {
      auto& value = values_of(field, batch)[static_cast<std::size_t>(place.row)];
      value = (*row)(value, place);
    } else if (const auto* positions = std::get_if<CoreField::OfPositions>(&field.make);
               positions && place.length > 0) {
      (*positions)(sequence, values_of(field, batch).data() + place.row * batch.cols + place.begin);
    }
  }
}

}  // namespace capstan::data
