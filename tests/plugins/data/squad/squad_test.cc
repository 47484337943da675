#include "plugins/data/squad/squad.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstdlib>
#include <filesystem>

#include "support/folder.h"
#include "support/options.h"

namespace squad_test {

using namespace capstan;
using namespace squad;
using test::Folder;

namespace {

constexpr const char* good = R"({"version": "1.1", "data": [
  {"title": "One", "paragraphs": [
    {"context": "Ada wrote it.", "qas": [
      {"id": "q1", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}, {"text": "Ada."}]},
      {"id": "q2", "question": "What did she do?", "answers": [{"text": "wrote it", "answer_start": 4}]}]}]},
  {"title": "Two", "paragraphs": [
    {"context": "Bob read it.", "qas": [
      {"id": "q3", "question": "Who read it?", "answers": [{"text": "Bob", "answer_start": 0}]}]}]}]})";

// Version 2.0: three questions without an answer, one of them not marked; an answer that is an article.
constexpr const char* version_2 = R"({"version": "v2.0", "data": [{"title": "t", "paragraphs": [
  {"context": "Ada keeps the fox.", "qas": [
    {"id": "a", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}], "is_impossible": false},
    {"id": "b", "question": "When?", "answers": [], "is_impossible": true,
     "plausible_answers": [{"text": "fox", "answer_start": 14}]},
    {"id": "c", "question": "Why?", "answers": [], "is_impossible": true},
    {"id": "d", "question": "How?", "answers": []},
    {"id": "e", "question": "Which?", "answers": [{"text": "the", "answer_start": 10}], "is_impossible": null}]}]}]})";

config::Options<SquadOptions> options(const testing::OptionValues& values) {
  return testing::options_of<SquadOptions>("data", values);
}

std::vector<std::string> faults(const testing::OptionValues& values) {
  Diagnostics diagnostics;
  SquadData(options(values)).check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

std::string fault_of_file(const std::string& content) {
  const Folder folder;
  const auto path = folder.write("train.json", content);
  const auto texts = faults({{"train", path}});
  REQUIRE(texts.size() == 1);
  REQUIRE(texts[0].starts_with(path + ": "));
  return texts[0].substr(path.size() + 2);
}

// What is logged goes into a file.
class Logged {
 public:
  explicit Logged(std::filesystem::path file) : file_(std::move(file)) {
    log::configure(file_.string(), log::Level::error, 0);
  }
  ~Logged() { log::configure({}, log::Level::warning, 0); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  std::string text() const { return std::filesystem::exists(file_) ? read_file(file_) : std::string(); }

 private:
  std::filesystem::path file_;
};

data::SplitRequest request(data::Split split) {
  return {split, std::make_shared<tokenizer::ByteTokenizer>(), 512, 258};
}

}  // namespace

TEST_CASE("both splits open with their questions in the file's order") {
  const Folder folder;
  const auto path = folder.write("a.json", good);
  const SquadData squad(options({{"train", path}, {"eval", path}, {"eval_samples", std::int64_t{2}}}));
  Diagnostics diagnostics;
  squad.check(diagnostics);
  CHECK(diagnostics.empty());
  const auto train = squad.open(request(data::Split::train));
  REQUIRE(train != nullptr);
  CHECK(train->size() == 3);
  CHECK(train->get(0).id == "q1");
  CHECK(train->get(2).id == "q3");
  CHECK(tokenizer::ByteTokenizer().decode(train->get(2).tokens) ==
        "Question: Who read it? Context: Bob read it. Answer: Bob");
  const auto eval = squad.open(request(data::Split::eval));
  REQUIRE(eval != nullptr);
  CHECK(eval->size() == 2);
  CHECK(eval->score(eval->get(0), " ada")[0] == std::pair<std::string, double>{"exact_match", 100.0});
}

TEST_CASE("options reach the samples") {
  const Folder folder;
  const auto path = folder.write("a.json", good);
  const SquadData squad(options({{"train", path}, {"loss", "sequence"}, {"max_length", std::int64_t{40}}}));
  CHECK(squad.max_length() == 40);
  CHECK(squad.open(request(data::Split::train))->get(0).is_target[0]);
  CHECK(squad.open(request(data::Split::eval)) == nullptr);
  CHECK(SquadData(options({{"train", path}})).max_length() == 0);
  CHECK_FALSE(SquadData(options({{"train", path}})).open(request(data::Split::train))->get(0).is_target[0]);
  CHECK_THROWS_WITH(options({{"loss", "answers"}}), Contains("answers") && Contains("answer"));
}

TEST_CASE("questions that fit no sample are found when the file is opened, only the used ones") {
  const Folder folder;
  const auto path = folder.write("a.json", good);
  const auto open = [&](std::int64_t most, std::int64_t samples) {
    const SquadData squad(options({{"train", path}, {"train_samples", samples}}));
    return squad.open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), most, 258});
  };
  // Without their contexts the questions have 37, 54 and 45 tokens.
  CHECK(open(54, 3)->size() == 3);
  CHECK(open(37, 1)->size() == 1);
  CHECK_THROWS_WITH(open(53, 3), path +
                                     ": question 'q2' needs 54 tokens without any context, max_length is 53\n"
                                     "    fix: raise max_length to 54 or more, or take the question out");
  CHECK_THROWS_WITH(open(36, 3),
                    path +
                        ": question 'q1' needs 37 tokens without any context, max_length is 36 (and 2 more; the "
                        "longest needs 54)\n    fix: raise max_length to 54 or more, or take them out");
}

TEST_CASE("asking for more questions than there are names both numbers") {
  const Folder folder;
  const auto path = folder.write("a.json", good);
  const auto texts =
      faults({{"train", path}, {"eval", path}, {"train_samples", std::int64_t{4}}, {"eval_samples", std::int64_t{9}}});
  REQUIRE(texts.size() == 2);
  CHECK(texts[0] == "a.toml:4: data.train_samples is 4, " + path +
                        " holds 3 questions\n    fix: use 3 or less, or leave data.train_samples out for all of them");
  CHECK_THAT(texts[1], Contains("data.eval_samples is 9"));
  const SquadData squad(options({{"train", path}, {"train_samples", std::int64_t{4}}}));
  CHECK_THROWS_WITH(squad.open(request(data::Split::train)), Contains("holds 3 questions"));
}

TEST_CASE("files that are not named or not there") {
  const Folder folder;
  CHECK(faults({}) == std::vector<std::string>{
                          "a.toml:1: neither data.train nor data.eval names a file\n    fix: set data.train to a file "
                          "in SQuAD's format; tools/get-squad FOLDER downloads them"});
  CHECK(faults({{"train", (folder / "none.json").string()}}) ==
        std::vector<std::string>{"a.toml:2: data.train: there is no file " + (folder / "none.json").string() +
                                 "\n    fix: tools/get-squad FOLDER downloads the official files, "
                                 "tools/make-quickstart-data makes the quickstart's"});
  const auto path = folder.write("a.json", good);
  CHECK(faults({{"train", path}, {"eval_samples", std::int64_t{2}}}) ==
        std::vector<std::string>{
            "a.toml:3: data.eval_samples is set, but data.eval names no file\n    fix: set data.eval"});
  // Both files' faults are told at once.
  CHECK(faults({{"train", (folder / "none.json").string()}, {"eval", (folder / "none.json").string()}}).size() == 2);
}

TEST_CASE("broken JSON is told once, with file and place") {
  const std::string whole = good;
  const auto truncated = fault_of_file(whole.substr(0, whole.size() / 2));
  CHECK(truncated == "the file ends before its JSON does, at byte " + std::to_string(whole.size() / 2) +
                         " (line 5)\n    fix: it is cut off: fetch or write it again");
  CHECK_THAT(fault_of_file(""), Contains("the file ends before its JSON does, at byte 0 (line 1)"));
  const auto broken = fault_of_file("{\"data\": [\n  {\"paragraphs\": oops}]}");
  CHECK_THAT(broken, Contains("broken JSON: line 2, column 18: no JSON at 'oops"));
  CHECK_THAT(broken, Contains("fix: fetch or write the file again"));
  CHECK_THAT(fault_of_file("{\"data\": \"\xFF\"}"),
             Contains("broken JSON: line 1, column 11: the byte \\xff is no UTF-8"));
}

TEST_CASE("what is missing or of the wrong type is named by its path") {
  const std::string format =
      "\n    fix: SQuAD is data[].paragraphs[] with a context and qas[] of id, question and answers[].text";
  CHECK(fault_of_file("{}") == "data is missing" + format);
  CHECK(fault_of_file("[1]") == "the file is of type array, not an object" + format);
  CHECK(fault_of_file(R"({"data": {}})") == "data is of type object, not a list" + format);
  CHECK(fault_of_file(R"({"data": [{}]})") == "data[0].paragraphs is missing" + format);
  CHECK(fault_of_file(R"({"data": [3]})") == "data[0] is of type number, not an object" + format);
  CHECK(fault_of_file(R"({"data": [{"paragraphs": [{"context": null, "qas": []}]}]})") ==
        "data[0].paragraphs[0].context is null, not a text" + format);
  CHECK(fault_of_file(R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "q", "question": "?"}]}]}]})") ==
        "data[0].paragraphs[0].qas[0].answers is missing" + format);
  CHECK(fault_of_file(R"({"data": [{"paragraphs": [{"context": "c", "qas": [
          {"id": "q", "question": "?", "answers": [{"text": "c"}, {"start": 1}]}]}]}]})") ==
        "data[0].paragraphs[0].qas[0].answers[1].text is missing" + format);
  CHECK(fault_of_file(R"({"data": [{"paragraphs": [{"context": "c", "qas": [
          {"id": "q", "question": "?", "answers": [{"text": ""}]}]}]}]})") ==
        "data[0].paragraphs[0].qas[0].answers[0].text of question 'q' is empty\n    fix: give the answer a text");
}

TEST_CASE("two questions with one id are refused, which would lose one's prediction") {
  CHECK(fault_of_file(R"({"data": [{"paragraphs": [
          {"context": "c", "qas": [{"id": "q", "question": "?", "answers": [{"text": "c"}]}]},
          {"context": "d", "qas": [{"id": "r", "question": "?", "answers": [{"text": "d"}]},
                                   {"id": "q", "question": "!", "answers": [{"text": "d"}]}]}]}]})") ==
        "data[0].paragraphs[1].qas[1] has the id 'q', which data[0].paragraphs[0].qas[0] has too\n    fix: give each "
        "question an id of its own; predictions stand under them");
}

TEST_CASE("an answer that its context does not have is named, where free answers are not asked for") {
  const std::string content = R"({"data": [{"paragraphs": [{"context": "Ada wrote it in Paris.", "qas": [
          {"id": "a", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]},
          {"id": "b", "question": "Who?", "answers": [{"text": "ada"}, {"text": "Ada"}]},
          {"id": "c", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 16}]}]}]}]})";
  CHECK(
      fault_of_file(content) ==
      "data[0].paragraphs[0].qas[1].answers[0].text of question 'b' is 'ada', which does not stand in the context (and "
      "so with 1 more question)\n    fix: write the answer as the context has it, letter for letter, or set "
      "data.answers = \"any\" if answers are to be free");
  const Folder folder;
  const auto path = folder.write("a.json", content);
  const auto of_eval = faults({{"eval", path}});  // one of the accepted answers suffices
  REQUIRE(of_eval.size() == 1);
  CHECK_THAT(of_eval[0], Contains("qas[2].answers[0].text of question 'c' is 'Rome', which does not stand in"));
  CHECK(faults({{"train", path}, {"answers", std::string("any")}}).empty());
}

TEST_CASE("a file without questions is refused") {
  const Folder folder;
  const auto path = folder.write("a.json", R"({"data": []})");
  CHECK(faults({{"train", path}}) ==
        std::vector<std::string>{"a.toml:2: data.train: " + path +
                                 " holds no questions\n    fix: name a file with questions"});
}

TEST_CASE("questions without an answer are refused in either split, until the options say what becomes of them") {
  const Folder folder;
  const auto path = folder.write("a.json", version_2);
  for (const char* split : {"train", "eval"}) {
    CHECK(faults({{split, path}}) ==
          std::vector<std::string>{path +
                                   ": data[0].paragraphs[0].qas[1] (question 'b') has no answer, nor 2 other "
                                   "questions, as in SQuAD v2.0\n    fix: set data.unanswerable = \"skip\" to leave "
                                   "such questions out, or \"learn\" to learn the text data.no_answer as their answer "
                                   "and to score them by version 2.0's rule"});
  }
}

TEST_CASE("questions without an answer are left out on request, and the number is said") {
  const Folder folder;
  const auto path = folder.write("a.json", version_2);
  const testing::OptionValues values{{"train", path}, {"eval", path}, {"unanswerable", std::string("skip")}};
  const Logged log(folder / "log");
  CHECK(faults(values).empty());
  CHECK_THAT(log.text(), Contains(path + ": 3 of 5 questions have no answer and are left out (data.unanswerable)"));
  const SquadData squad(options(values));
  for (const auto split : {data::Split::train, data::Split::eval}) {
    const auto source = squad.open(request(split));
    REQUIRE(source->size() == 2);
    CHECK(source->get(0).id == "a");
    CHECK(source->get(1).id == "e");
    // Version 1.1's rule: an answer that is an article agrees with another by exact match only.
    CHECK(source->score(source->get(1), "the")[0].second == 100);
    CHECK(source->score(source->get(1), "the")[1].second == 0);
  }
  auto more = values;
  more.emplace_back("eval_samples", std::int64_t{3});
  REQUIRE(faults(more).size() == 1);
  CHECK_THAT(faults(more)[0], Contains("data.eval_samples is 3") && Contains("holds 2 questions"));
  const auto none = folder.write("none.json", R"({"data": [{"paragraphs": [{"context": "c", "qas": [
      {"id": "q", "question": "?", "answers": []}]}]}]})");
  CHECK(faults({{"eval", none}, {"unanswerable", std::string("skip")}}) ==
        std::vector<std::string>{none + ": none of its 1 question has an answer, and data.unanswerable is \"skip\"\n"
                                        "    fix: set data.unanswerable = \"learn\", or name a file with answers"});
}

TEST_CASE("a text is learned where a question has no answer, and scores follow version 2.0's rule") {
  const Folder folder;
  const auto path = folder.write("a.json", version_2);
  for (const std::string text : {"unanswerable", "No answer."}) {
    testing::OptionValues values{{"train", path}, {"eval", path}, {"unanswerable", std::string("learn")}};
    if (text != "unanswerable") values.emplace_back("no_answer", text);
    CHECK(faults(values).empty());
    const SquadData squad(options(values));
    const auto train = squad.open(request(data::Split::train));
    REQUIRE(train->size() == 5);
    const auto sample = train->get(1);
    CHECK(tokenizer::ByteTokenizer().decode(sample.tokens) ==
          "Question: When? Context: Ada keeps the fox. Answer: " + text);
    CHECK(sample.tokens.size() - static_cast<std::size_t>(sample.prompt_length) == text.size() + 2);
    const auto eval = squad.open(request(data::Split::eval));
    const auto scores_of = [&](std::int64_t index, const std::string& answer) {
      const auto values_of = eval->score(eval->question(index, 512), answer);
      return std::vector<double>{values_of.at(0).second, values_of.at(1).second};
    };
    const std::vector<double> right{100, 100}, wrong{0, 0};
    for (const std::int64_t index : {1, 2, 3}) {
      CHECK(scores_of(index, " " + text) == right);
      CHECK(scores_of(index, "") == right);
      CHECK(scores_of(index, "\nfox") == right);
      CHECK(scores_of(index, " fox") == wrong);
      CHECK(scores_of(index, " " + text + " fox") == wrong);
    }
    CHECK(scores_of(0, " Ada") == right);
    CHECK(scores_of(0, " " + text) == wrong);
    CHECK(scores_of(0, "") == wrong);
    // The only answer has no word that counts: version 2.0 takes the question for one without an answer.
    CHECK(scores_of(4, "the") == right);
    CHECK(scores_of(4, " fox") == wrong);
  }
}

TEST_CASE("what a file or a configuration says twice about answers is refused") {
  CHECK(fault_of_file(R"({"data": [{"paragraphs": [{"context": "c", "qas": [
          {"id": "q", "question": "?", "answers": [{"text": "c"}], "is_impossible": true}]}]}]})") ==
        "data[0].paragraphs[0].qas[0].is_impossible of question 'q' is true, but it has the answer 'c'\n"
        "    fix: take one of them out");
  CHECK_THAT(fault_of_file(R"({"data": [{"paragraphs": [{"context": "c", "qas": [
          {"id": "q", "question": "?", "answers": [], "is_impossible": "yes"}]}]}]})"),
             Contains("data[0].paragraphs[0].qas[0].is_impossible is of type string, not true or false"));
  CHECK_THAT(fault_of_file(R"({"data": [{"paragraphs": [{"context": "c", "qas": [
          {"id": "q", "question": "?", "is_impossible": true}]}]}]})"),
             Contains("(question 'q') has no answer, as in SQuAD v2.0"));
  const Folder folder;
  const auto path = folder.write("a.json", good);
  const auto learn = [&](const std::string& text) {
    return faults({{"train", path}, {"unanswerable", std::string("learn")}, {"no_answer", text}});
  };
  CHECK(learn("The ADA!") ==
        std::vector<std::string>{path +
                                 ": question 'q1' has the answer 'Ada', which stands for no answer (data.no_answer)\n"
                                 "    fix: set data.no_answer to a text that no question has as its answer"});
  for (const auto* text : {"", "  ", "no\nanswer"}) {
    REQUIRE(learn(text).size() == 1);
    CHECK_THAT(learn(text)[0], Contains("data.no_answer is not a line of text, as answers are"));
  }
  const auto unused = faults({{"train", path}, {"no_answer", std::string("none")}});
  REQUIRE(unused.size() == 1);
  CHECK_THAT(unused[0], Contains("data.no_answer has no effect: data.unanswerable is not \"learn\""));
}

TEST_CASE("keys that nobody knows are named once by their paths, and version 2.0's own are known") {
  const Folder folder;
  const auto known = folder.write("known.json", version_2);
  const auto odd = folder.write("odd.json", R"({"data": [{"titel": "t", "paragraphs": [
      {"context": "c", "document_id": 7, "qas": [
        {"id": "q", "question": "?", "answers": [{"text": "c", "answer_end": 1}], "type": {"a": {"b": 1}}},
        {"id": "r", "question": "?", "answers": [{"text": "c", "answer_end": 1}], "type": null}]}]}], "meta": []})");
  const Logged log(folder / "log");
  CHECK(faults({{"train", known}, {"unanswerable", std::string("learn")}}).empty());
  CHECK(log.text().empty());
  CHECK(faults({{"train", odd}}).empty());
  CHECK_THAT(log.text(),
             Contains(odd + ": Capstan does not know these keys and leaves them out: data[].paragraphs[].document_id, "
                            "data[].paragraphs[].qas[].answers[].answer_end, data[].paragraphs[].qas[].type, "
                            "data[].titel, meta\n"));
  for (const auto& key : SquadOptions::file_keys().at(0).keys) CHECK_FALSE(key.words.empty());
}

TEST_CASE("the data set in the tree is sound") {
  const std::string folder = CAPSTAN_SOURCE_DIR "/configs/data/";
  const SquadData squad(
      options({{"train", folder + "mini_squad_train.json"}, {"eval", folder + "mini_squad_eval.json"}}));
  const auto train = squad.open(request(data::Split::train));
  const auto eval = squad.open(request(data::Split::eval));
  CHECK(train->size() >= 300);
  CHECK(eval->size() >= 40);
  for (const auto& source : {train, eval}) {
    for (std::int64_t i = 0; i < source->size(); ++i) {
      const auto sample = source->get(i);
      CHECK(sample.tokens.size() <= 144);
      CHECK(source->score(sample, " " + sample.references[0])[0].second == 100.0);
    }
  }
}

TEST_CASE("real SQuAD files, where CAPSTAN_SQUAD names their folder") {
  const char* folder = std::getenv("CAPSTAN_SQUAD");
  if (folder == nullptr) return;
  const SquadData squad(
      options({{"train", std::string(folder) + "/train.json"}, {"eval", std::string(folder) + "/dev.json"}}));
  for (const auto split : {data::Split::train, data::Split::eval}) {
    const auto source = squad.open(request(split));
    REQUIRE(source != nullptr);
    std::int64_t truncated = 0;
    std::int64_t faulty = 0;
    for (std::int64_t i = 0; i < source->size(); ++i) {
      const auto sample = source->get(i);
      truncated += sample.tokens.size() >= 509;  // a cut character leaves up to three bytes unused
      // Whatever was cut, the answer stands whole after the prompt, with the end token.
      const auto answer = std::vector<std::int64_t>(sample.tokens.begin() + sample.prompt_length, sample.tokens.end());
      faulty += tokenizer::ByteTokenizer().decode(answer) != " " + sample.references[0] || answer.back() != 256 ||
                sample.tokens.size() > 512 || source->score(sample, sample.references.back())[0].second != 100.0;
    }
    CHECK(truncated > source->size() / 2);
    CHECK(faulty == 0);
  }
}

}  // namespace squad_test
