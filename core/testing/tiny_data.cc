#include <capstan/base/text.h>
#include <capstan/data/source.h>
#include <capstan/testing.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "testing/tiny.h"

namespace capstan::testing {
namespace {

constexpr std::int64_t prompt = 2;

struct DataOptions {
  std::int64_t samples = 70;
  std::int64_t length = 0;
  std::int64_t sequences = 1;
  std::string meaning;
  std::vector<std::string> fields;
  static void describe(config::OptionTable<DataOptions>& t) {
    t.add("samples", &DataOptions::samples).min(1).doc("samples");
    t.add("length", &DataOptions::length).min(0).doc("tokens of each sequence, at least 3; 0: 4 to 16");
    t.add("sequences", &DataOptions::sequences).min(1).doc("sequences of a sample, whose tokens and lengths differ");
    t.add("meaning", &DataOptions::meaning).doc("what a sample's sequences are to each other");
    t.add("fields", &DataOptions::fields)
        .doc("fields, each as \"name int64|float32 token|sequence|sample\", with values from -1 to 1, or 0 to 4");
  }
};

std::optional<data::FieldSpec> field_of(const std::string& text) {
  const auto words = split(text, ' ');
  if (words.size() != 3) return {};
  data::FieldSpec field{words[0], data::FieldSpec::Type::int64, data::FieldSpec::Per::token};
  if (words[1] == "float32") field.type = data::FieldSpec::Type::float32;
  if (words[2] == "sequence") field.per = data::FieldSpec::Per::sequence;
  if (words[2] == "sample") field.per = data::FieldSpec::Per::sample;
  return field;
}

// Numbers without a pattern that a test could meet by chance.
data::FieldValues values_of(const data::FieldSpec& field, std::int64_t index, std::size_t count) {
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
  auto state = static_cast<std::uint64_t>(index) * 2654435761U + field.name.size();
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    integers.push_back(static_cast<std::int64_t>((state >> 40) % 5));
    floats.push_back(static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1));
  }
  if (field.type == data::FieldSpec::Type::float32) return floats;
  return integers;
}

// Sequences in which the previous token determines the next one, so that there is something to learn.
class Sequences : public data::DataSource {
 public:
  Sequences(const DataOptions& options, const data::SplitRequest& request, data::SampleForm form)
      : count_(options.samples),
        longest_(request.max_length),
        alphabet_(std::min<std::int64_t>(29, request.vocab_size)),
        is_even_(options.length > 0),
        form_(std::move(form)) {}
  std::int64_t size() const override { return count_; }

  data::Sample get(std::int64_t index) const override {
    data::Sample sample;
    sample.id = std::to_string(index);
    auto first = sequence(index);
    sample.tokens = std::move(first.tokens);
    sample.is_target = std::move(first.is_target);
    sample.prompt_length = std::min(prompt, static_cast<std::int64_t>(sample.tokens.size()));
    for (std::int64_t i = 1; i < form_.sequences; ++i) sample.others.push_back(sequence(index + 5 * i));
    for (const auto& field : form_.fields) sample.fields.push_back(values_of(field, index, size_of(field, sample)));
    return sample;
  }

 private:
  data::Sequence sequence(std::int64_t index) const {
    data::Sequence sequence;
    const auto length = is_even_ ? longest_ : std::min<std::int64_t>(longest_, 4 + index * 7 % 13);
    auto token = index * 11 % alphabet_;
    for (std::int64_t i = 0; i < length; ++i) {
      sequence.tokens.push_back(token);
      sequence.is_target.push_back(i >= prompt);
      token = (3 * token + 1) % alphabet_;
    }
    return sequence;
  }

  static std::size_t size_of(const data::FieldSpec& field, const data::Sample& sample) {
    if (field.per == data::FieldSpec::Per::sample) return 1;
    const auto sequences = data::sequences_of(sample);
    if (field.per == data::FieldSpec::Per::sequence) return sequences.size();
    std::size_t tokens = 0;
    for (const auto& sequence : sequences) tokens += sequence.tokens.size();
    return tokens;
  }

  std::int64_t count_;
  std::int64_t longest_;
  std::int64_t alphabet_;
  bool is_even_;
  data::SampleForm form_;
};

class TinyData : public data::Data {
 public:
  explicit TinyData(config::Options<DataOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics& diagnostics) const override {
    if (options_->length != 0 && options_->length <= prompt) {
      diagnostics.add(options_.where(&DataOptions::length), "data.length leaves no token to predict",
                      "use 3 or more, or 0");
    }
    for (const auto& field : options_->fields) {
      if (field_of(field)) continue;
      diagnostics.add(options_.where(&DataOptions::fields), cat("data.fields has \"", field, "\""),
                      "write a name, int64 or float32, and token, sequence or sample, with a space between them");
    }
  }
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    if (request.split == data::Split::eval) return nullptr;
    return std::make_shared<Sequences>(*options_, request, form());
  }
  std::int64_t max_length() const override { return options_->length; }
  bool uses_tokenizer() const override { return false; }
  data::SampleForm form() const override {
    data::SampleForm form{options_->sequences, {}, options_->meaning};
    for (const auto& text : options_->fields) {
      if (const auto field = field_of(text)) form.fields.push_back(*field);
    }
    return form;
  }

 private:
  config::Options<DataOptions> options_;
};

}  // namespace

plugin::Registration tiny_data() { return type<data::Data, TinyData, DataOptions>("data", "tiny"); }

}  // namespace capstan::testing
