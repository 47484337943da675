#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace label_test {

using namespace capstan;
using namespace jsonl;
using test::error_of;
using test::Folder;

namespace {

using Values = testing::OptionValues;

JsonlData data_of(const std::string& path, const Values& more = {}) {
  Values values{{"train", path}, {"labels", true}};
  values.insert(values.end(), more.begin(), more.end());
  return JsonlData(testing::options_of<JsonlOptions>("data", values));
}

data::SplitRequest request(std::int64_t max_length = 200) {
  return {data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), max_length, 258};
}

std::string line(const std::string& prompt, const std::string& completion, const std::string& label) {
  return R"({"prompt": ")" + prompt + R"(", "completion": ")" + completion + R"(", "label": )" + label + "}\n";
}

// A sequence's text, with what bears loss in brackets and the end token as '.'.
std::string shown(const data::SequenceView& sequence) {
  const tokenizer::ByteTokenizer tokenizer;
  std::string text;
  bool inside = false;
  for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
    if (sequence.is_target[t] != inside) text += inside ? "]" : "[";
    inside = sequence.is_target[t];
    text += tokenizer.is_end(sequence.tokens[t]) ? "." : std::string(1, static_cast<char>(sequence.tokens[t]));
  }
  return text + (inside ? "]" : "");
}

std::string shown(const data::Sample& sample) {
  const auto sequences = data::sequences_of(sample);
  return shown(sequences.at(0)) + " | " + shown(sequences.at(1));
}

std::int64_t label(const data::Sample& sample) {
  return std::get<std::vector<std::int64_t>>(sample.fields.at(0)).at(0);
}

std::string faults(const std::string& text, const Values& more = {}) {
  const Folder folder;
  Diagnostics diagnostics;
  data_of(folder.write("a.jsonl", text), more).check(diagnostics);
  std::string all;
  for (const auto& one : diagnostics.list()) all += one.text() + "\n";
  return all;
}

}  // namespace

TEST_CASE("a line with a label is its prompt with its answer, and with that of the line before it") {
  const Folder folder;
  const auto data = data_of(
      folder.write("a.jsonl", line("1+1=", "2", "true") + line("sky?", "blue", "0") + line("2+2=", "5", "false")));
  const auto form = data.form();
  CHECK(form.sequences == 2);
  CHECK(form.meaning == "an answer with a label and another prompt's answer");
  const auto source = data.open(request());
  CHECK(shown(source->get(0)) == "1+1=[2.] | 1+1=[5.]");
  CHECK(shown(source->get(1)) == "sky?[blue.] | sky?[2.]");
  CHECK(shown(source->get(2)) == "2+2=[5.] | 2+2=[blue.]");
  CHECK(label(source->get(0)) == 1);
  CHECK(label(source->get(1)) == 0);
  CHECK(label(source->get(2)) == 0);
  CHECK(testing::data_breaches(*source, request(), form) == "");
}

TEST_CASE("an answer to the same prompt is no other prompt's") {
  const Folder folder;
  const auto two = line("a", "x", "true") + line("a", "y", "false");
  const auto source = data_of(folder.write("a.jsonl", line("b", "z", "true") + two)).open(request());
  CHECK(shown(source->get(2)) == "a[y.] | a[z.]");
  CHECK(shown(source->get(0)) == "b[z.] | b[y.]");
  CHECK_THAT(error_of([&] { data_of(folder.write("b.jsonl", two)).open(request())->get(0); }),
             Contains("no line has another prompt"));
}

TEST_CASE("the other answer fits, whatever becomes of lines that are too long") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", line("long prompt:", "a", "true") + line("q", "answer", "false"));
  for (const auto* way : {"error", "cut"}) {
    const auto source = data_of(path, {{"too_long", std::string(way)}}).open(request(14));
    CHECK(shown(source->get(0)) == "long prompt:[a.] | prompt:[answer.]");
    CHECK(shown(source->get(1)) == "q[answer.] | q[a.]");
  }
  const auto dropped = data_of(path, {{"too_long", std::string("drop")}}).open(request(8));
  REQUIRE(dropped->size() == 1);  // by the line's own length
  CHECK(shown(dropped->get(0)) == "q[answer.] | q[a.]");
  const auto cut = data_of(folder.write("b.jsonl", line("q", "a", "true") + line("p", "longer", "false")),
                           {{"too_long", std::string("drop")}})
                       .open(request(3));
  REQUIRE(cut->size() == 1);
  CHECK(shown(cut->get(0)) == "q[a.] | [lon]");
}

TEST_CASE("lines without a label, of another form, and options that do not fit are named") {
  const auto good = line("a", "b", "true") + line("c", "d", "false");
  CHECK(faults(good).empty());
  CHECK_THAT(faults(good + R"({"prompt": "e", "completion": "f"})"), Contains("a.jsonl:3: 'label' is missing"));
  CHECK_THAT(faults(good + line("e", "f", "2")), Contains("a.jsonl:3: 'label' is 2"));
  CHECK_THAT(faults(good + R"({"text": "e", "label": true})"), Contains("a.jsonl:3: the line has text"));
  CHECK_THAT(faults(good, {{"pairs", true}}), Contains("data.labels and data.pairs are both set"));
  CHECK_THAT(faults(good, {{"loss", std::string("sequence")}}), Contains("with data.labels answers are learned"));
  CHECK_THAT(faults(good, {{"teacher_words", 2}}), Contains("with data.labels no line has a teacher's words"));
}

}  // namespace label_test
