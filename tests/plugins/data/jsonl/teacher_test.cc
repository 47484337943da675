#include "plugins/libraries/records/teacher.h"

#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace teacher_test {

using namespace capstan;
using namespace jsonl;
using test::error_of;

namespace {

using Ids = std::vector<std::int64_t>;
using Logs = std::vector<float>;

JsonlData data_of(const std::string& path, testing::OptionValues more = {}) {
  more.push_back({"train", path});
  more.push_back({"teacher_words", std::int64_t{2}});
  return JsonlData(testing::options_of<JsonlOptions>("data", more));
}

std::shared_ptr<data::DataSource> open(const JsonlData& data, std::int64_t max_length = 100, std::int64_t words = 258) {
  return data.open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), max_length, words});
}

// "ab" is asked, "cd" and the end are learned: three lists.
const std::string line = R"({"prompt": "ab", "completion": "cd")";
const std::string lists =
    R"(, "teacher_words": [[1, 2], [3, 4], [5, 6]], "teacher_log_probabilities": [[-0.5, -2], [-1, -1], [-0.25, -3]]})";

}  // namespace

TEST_CASE("a teacher's words of a line stand at the tokens that bear loss, a field for each word") {
  const test::Folder folder;
  const auto data = data_of(folder.write("a.jsonl", line + lists));
  const auto fields = data.form().fields;
  REQUIRE(fields.size() == 4);
  CHECK(fields[0] == data::FieldSpec{"teacher_word_1", data::FieldSpec::Type::int64, data::FieldSpec::Per::token});
  CHECK(fields[3].name == "teacher_log_probability_2");
  CHECK(fields[3].type == data::FieldSpec::Type::float32);
  const auto sample = open(data)->get(0);
  REQUIRE(sample.tokens.size() == 5);
  CHECK(std::get<Ids>(sample.fields[0]) == Ids{0, 0, 1, 3, 5});
  CHECK(std::get<Logs>(sample.fields[1]) == Logs{0, 0, -0.5F, -1, -0.25F});
  CHECK(std::get<Ids>(sample.fields[2]) == Ids{0, 0, 2, 4, 6});
  CHECK(std::get<Logs>(sample.fields[3]) == Logs{0, 0, -2, -1, -3});
}

TEST_CASE("lines that are cut keep each token's words, and a text's first token has none") {
  const test::Folder folder;
  const std::string logs = R"("teacher_log_probabilities": [[-1, -2], [-1, -2], [-1, -2]])";
  const auto text =
      folder.write("text.jsonl", R"({"text": "abc", "teacher_words": [[1, 2], [3, 4], [5, 6]], )" + logs + "}");
  const auto whole = data_of(text), cut = data_of(text, {{"too_long", std::string("cut")}});
  CHECK(std::get<Ids>(open(whole)->get(0).fields[0]) == Ids{0, 1, 3, 5});
  CHECK(std::get<Ids>(open(cut, 3)->get(0).fields[0]) == Ids{0, 1, 3});
  const auto prompt = data_of(folder.write("prompt.jsonl", line + lists), {{"too_long", std::string("cut")}});
  const auto sample = open(prompt, 4)->get(0);
  REQUIRE(sample.tokens.size() == 4);
  CHECK(std::get<Ids>(sample.fields[2]) == Ids{0, 2, 4, 6});
  // With the loss of the whole sequence the prompt's second token has words too.
  const auto all = data_of(
      folder.write("all.jsonl",
                   R"({"prompt": "a", "completion": "bc", "teacher_words": [[1, 2], [3, 4], [5, 6]], )" + logs + "}"),
      {{"loss", std::string("sequence")}});
  CHECK(std::get<Ids>(open(all)->get(0).fields[0]) == Ids{0, 1, 3, 5});
}

TEST_CASE("numbers of a line come before its teacher's words") {
  const test::Folder folder;
  const auto data = data_of(folder.write("a.jsonl", line + R"(, "weight": 3)" + lists),
                            {{"numbers", std::vector<std::string>{"weight"}}});
  CHECK(data.form().fields[0].name == "weight");
  const auto sample = open(data)->get(0);
  REQUIRE(sample.fields.size() == 5);
  CHECK(std::get<Logs>(sample.fields[0]) == Logs{3});
  CHECK(std::get<Ids>(sample.fields[1]) == Ids{0, 0, 1, 3, 5});
}

TEST_CASE("a teacher's words that are none are named before anything begins") {
  const test::Folder folder;
  const auto wrong = [](const std::string& ids, const std::string& logs) {
    return R"(, "teacher_words": )" + ids + R"(, "teacher_log_probabilities": )" + logs + "}";
  };
  const std::string good = "[[-0.5, -2], [-1, -1], [-0.25, -3]]";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"}", "'teacher_words' is missing"},
      {R"(, "teacher_words": [[1, 2]]})", "'teacher_log_probabilities' is missing"},
      {wrong("7", good), "'teacher_words' is of type number, not a list of lists"},
      {wrong("[[1, 2]]", good), "'teacher_words' has 1 lists, and 'teacher_log_probabilities' 3"},
      {wrong("[[1, 2], [3], [5, 6]]", good), "'teacher_words[1]' is no list of 2 numbers"},
      {wrong("[[1, 2], [3, -4], [5, 6]]", good), "'teacher_words[1]' has -4, which is no id"},
      {wrong("[[1, 2], [3, 4.5], [5, 6]]", good), "'teacher_words[1]' has 4.5, which is no id"},
      {wrong("[[1, 2], [3, 4], [6, 6]]", good), "'teacher_words[2]' has the word 6 twice"},
      {wrong("[[1, 2]]", "[[1e300, 2]]"), "which is no finite number"},
      {wrong("[[1, 2]]", "[[-0.1, -0.2]]"), "are of probabilities whose sum is 1.7"},
      {wrong("[[1, 2]]", "[[-0.5, 2]]"), "'teacher_log_probabilities[0]' has 2, and the logarithm of a probability"},
      {wrong("[[1, 2]]", "null"), "'teacher_log_probabilities' is missing"}};
  for (const auto& [end, what] : cases) {
    INFO(end);
    Diagnostics faults;
    data_of(folder.write("a.jsonl", line + end)).check(faults);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults.list()[0].what, Contains(what));
    CHECK_THAT(faults.list()[0].where, Contains("a.jsonl:1"));
  }
}

TEST_CASE("a teacher's words of other tokens, or of a larger vocabulary, are named when the line is read") {
  const test::Folder folder;
  const auto few = data_of(folder.write(
      "a.jsonl", line + R"(, "teacher_words": [[1, 2]],)" + R"( "teacher_log_probabilities": [[-1, -2]]})"));
  CHECK_THAT(error_of([&] { open(few)->get(0); }), Contains("a.jsonl:1") && Contains("has 1 lists, and 3 tokens"));
  const auto many = data_of(folder.write("b.jsonl", line + lists));
  CHECK_THAT(error_of([&] { open(many, 100, 6)->get(0); }),
             Contains("b.jsonl:1") && Contains("'teacher_words[2]' has 6, and the model has 6 words"));
}

TEST_CASE("pairs have no teacher's words") {
  const test::Folder folder;
  Diagnostics faults;
  data_of(folder.write("a.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c"})"), {{"pairs", true}})
      .check(faults);
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults.list()[0].what, Contains("data.teacher_words is set"));
}

}  // namespace teacher_test
