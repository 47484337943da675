#include "data/sample_form.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "data/core_fields.h"

namespace capstan::data {
namespace {

FieldValues zeros(FieldSpec::Type type, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  if (type == FieldSpec::Type::float32) return std::vector<float>(size);
  return std::vector<std::int64_t>(size);
}

// Calls with the batch's and the sample's values of each field, which have the same type.
template <class Call>
void each_field(HostBatch& batch, const Sample& sample, const Call& call) {
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {  // core's come after them
    std::visit(
        [&](auto& to) {
          using Values = std::decay_t<decltype(to)>;
          call(batch.fields[i].spec, to, std::get<Values>(sample.fields[i]));
        },
        batch.fields[i].values);
  }
}

std::size_t wanted(const FieldSpec& field, const Sample& sample) {
  if (field.per == FieldSpec::Per::sample) return 1;
  const auto sequences = sequences_of(sample);
  if (field.per == FieldSpec::Per::sequence) return sequences.size();
  std::size_t tokens = 0;
  for (const auto& sequence : sequences) tokens += sequence.tokens.size();
  return tokens;
}

const char* per_text(FieldSpec::Per per) {
  return per == FieldSpec::Per::token ? "token" : per == FieldSpec::Per::sequence ? "sequence" : "sample";
}

void check_field(const Sample& sample, const FieldSpec& field, const FieldValues& values) {
  const bool is_float = std::holds_alternative<std::vector<float>>(values);
  if (is_float != (field.type == FieldSpec::Type::float32)) {
    throw Error(cat("sample '", sample.id, "' has ", is_float ? "float32" : "int64", " values for the field '",
                    field.name, "', which is declared as ", is_float ? "int64" : "float32"),
                "the data plugin must give values of the type that its form() declares");
  }
  const auto size = std::visit([](const auto& all) { return all.size(); }, values);
  if (size == wanted(field, sample)) return;
  throw Error(cat("sample '", sample.id, "' has ", counted(size, "value"), " of the field '", field.name,
                  "' instead of ", wanted(field, sample)),
              cat("the data plugin must give one for each ", per_text(field.per)));
}

void check_begins(const Sample& sample, const SampleForm& form) {
  if (sample.begins.empty()) return;
  if (form.sequences != 1) {
    throw Error(cat("sample '", sample.id, "' has several documents and several sequences"),
                "the data plugin must give documents only in samples of one sequence");
  }
  std::int64_t before = 0;
  for (const auto begin : sample.begins) {
    if (begin <= before || begin >= static_cast<std::int64_t>(sample.tokens.size())) {
      throw Error(cat("sample '", sample.id, "' has a document that begins at token ", begin),
                  "the data plugin must give Sample::begins in ascending order, between the first token and the last");
    }
    before = begin;
  }
}

}  // namespace

void check_form(const SampleForm& form) {
  if (form.sequences < 1)
    throw Error(cat("form() says that a sample has ", form.sequences, " sequences"), "it must have at least one");
  for (auto field = form.fields.begin(); field != form.fields.end(); ++field) {
    const auto same = [&](const FieldSpec& other) { return other.name == field->name; };
    if (!field->name.empty() && std::none_of(form.fields.begin(), field, same)) continue;
    throw Error(cat("form() declares ", field->name.empty() ? "a field without a name" : "two fields of the name '",
                    field->name, field->name.empty() ? "" : "'"),
                "give each field a name of its own");
  }
  for (const auto& [name, make, fill, member] : core_fields()) {
    const auto is_it = [&name = name](const FieldSpec& field) { return field.name == name; };
    if (std::none_of(form.fields.begin(), form.fields.end(), is_it)) continue;
    throw Error(cat("form() declares the field '", name, "', as every batch has one of core"), "give it another name");
  }
  const FieldSpec field{source_field};
  if (form.sources.empty() || std::find(form.fields.begin(), form.fields.end(), field) != form.fields.end()) return;
  throw Error(cat("form() names sources, and no field '", source_field, "' (int64, one a sample)"),
              "say of each sample which of them it is from");
}

SourceTokens tokens_by_source(const HostBatch& batch, std::size_t sources) {
  const auto field = std::find_if(batch.fields.begin(), batch.fields.end(),
                                  [](const HostField& one) { return one.spec.name == source_field; });
  CAPSTAN_ASSERT(field != batch.fields.end());
  const auto& of_sample = std::get<std::vector<std::int64_t>>(field->values);
  SourceTokens tokens{std::vector<double>(sources), std::vector<double>(sources)};
  const auto add = [&](std::int64_t sequence, std::int64_t first, std::int64_t length) {
    const auto source = static_cast<std::size_t>(of_sample.at(static_cast<std::size_t>(sequence / batch.per_sample)));
    const auto labels = batch.labels.begin() + first;
    tokens.real.at(source) += static_cast<double>(length);
    tokens.target.at(source) += static_cast<double>(length - std::count(labels, labels + length, ignored_label));
  };
  for (const auto& document : batch.documents)
    add(document.sequence, document.row * batch.cols + document.begin, document.length);
  for (std::int64_t row = 0; batch.documents.empty() && row < batch.rows; ++row)
    add(row, row * batch.cols, batch.lengths[static_cast<std::size_t>(row)]);
  return tokens;
}

void check_form(const Sample& sample, const SampleForm& form) {
  const auto sequences = sequences_of(sample);
  if (static_cast<std::int64_t>(sequences.size()) != form.sequences) {
    throw Error(
        cat("sample '", sample.id, "' has ", counted(sequences.size(), "sequence"), " instead of ", form.sequences),
        "the data plugin must give as many as its form() declares");
  }
  for (const auto& [tokens, is_target] : sequences) {
    if (tokens.size() == is_target.size()) continue;
    throw Error(cat("sample '", sample.id, "' has ", tokens.size(), " tokens but is_target has ", is_target.size()),
                "the data plugin must give one flag a token");
  }
  check_begins(sample, form);
  if (sample.fields.size() != form.fields.size()) {
    throw Error(cat("sample '", sample.id, "' has values of ", counted(sample.fields.size(), "field"), " instead of ",
                    form.fields.size()),
                "the data plugin must give values of all fields that its form() declares, in that order");
  }
  for (std::size_t i = 0; i < form.fields.size(); ++i) check_field(sample, form.fields[i], sample.fields[i]);
}

SampleForm with_only(SampleForm form, const std::vector<std::size_t>& which) {
  if (!which.empty()) form.sequences = std::ssize(which);
  return form;
}

Sample with_only(const Sample& sample, const SampleForm& form, const std::vector<std::size_t>& which) {
  if (which.empty()) return sample;
  check_form(sample, form);
  const auto all = sequences_of(sample);
  std::vector<std::size_t> begins{0};
  for (const auto& sequence : all) begins.push_back(begins.back() + sequence.tokens.size());
  Sample own;
  own.id = sample.id;
  own.tokens = all.at(which.front()).tokens;
  own.is_target = all[which.front()].is_target;
  for (auto i = which.begin() + 1; i != which.end(); ++i) own.others.push_back({all.at(*i).tokens, all[*i].is_target});
  for (std::size_t i = 0; i < form.fields.size(); ++i) {
    const auto per = form.fields[i].per;
    own.fields.push_back(sample.fields[i]);
    if (per == FieldSpec::Per::sample) continue;
    const auto pick = [&](auto& values) {
      const auto from = std::exchange(values, {});
      for (const auto sequence : which) {
        const bool per_token = per == FieldSpec::Per::token;
        const auto begin = from.begin() + static_cast<std::ptrdiff_t>(per_token ? begins[sequence] : sequence);
        values.insert(values.end(), begin, begin + (per_token ? std::ssize(all[sequence].tokens) : 1));
      }
    };
    std::visit(pick, own.fields.back());
  }
  return own;
}

std::int64_t field_size(const FieldSpec& field, const HostBatch& batch) {
  if (field.per == FieldSpec::Per::token) return batch.padded_tokens();
  return field.per == FieldSpec::Per::sequence ? batch.samples * batch.per_sample : batch.samples;
}

void add_fields(HostBatch& batch, const SampleForm& form) {
  for (const auto& field : fields_of(form))
    batch.fields.push_back({field, zeros(field.type, field_size(field, batch))});
}

void put_fields(HostBatch& batch, const Sample& sample, std::int64_t index) {
  each_field(batch, sample, [&](const FieldSpec& field, auto& to, const auto& from) {
    if (field.per == FieldSpec::Per::token) return;
    const auto place = field.per == FieldSpec::Per::sequence ? index * batch.per_sample : index;
    std::copy(from.begin(), from.end(), to.begin() + place);
  });
}

void put_token_fields(HostBatch& batch, const Sample& sample, std::int64_t first, std::int64_t begin,
                      std::int64_t length) {
  each_field(batch, sample, [&](const FieldSpec& field, auto& to, const auto& from) {
    if (field.per != FieldSpec::Per::token) return;
    // As labels: position t predicts token t + 1.
    std::copy_n(from.begin() + first + 1, length, to.begin() + begin);
  });
}

}  // namespace capstan::data
