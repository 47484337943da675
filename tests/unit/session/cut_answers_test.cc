#include "session/door.h"

#include <capstan/data.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>

#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"

namespace cut_answers_test {

using namespace capstan;

namespace {

struct QuestionOptions {
  std::int64_t length = 12;
  static void describe(config::OptionTable<QuestionOptions>& t) { t.add("length", &QuestionOptions::length); }
};

struct Question {
  std::string text;
  std::string answer;
};

// An answer early in a long text, one late, one that is nowhere, and a short text without its answer.
const std::vector<Question> questions{{"early " + std::string(12, '.'), "early"},
                                      {std::string(12, '.') + " late", "late"},
                                      {std::string(17, '.'), "nowhere"},
                                      {"short", "long"}};

class Source : public data::DataSource {
 public:
  explicit Source(const data::SplitRequest& request) : tokenizer_(request.tokenizer), most_(request.max_length) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(questions.size()); }
  data::Sample get(std::int64_t index) const override {
    const auto& question = questions[static_cast<std::size_t>(index)];
    data::Sample sample;
    const auto room = static_cast<std::size_t>(most_ - 1);
    sample.tokens = tokenizer_->encode(question.text.substr(0, std::min(room, question.text.size())));
    sample.prompt_length = static_cast<std::int64_t>(sample.tokens.size());
    sample.is_target.resize(sample.tokens.size());
    sample.tokens.push_back(tokenizer_->end_id());
    sample.is_target.push_back(true);
    sample.references = {question.answer};
    return sample;
  }

 private:
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::int64_t most_;
};

class Questions : public data::Data {
 public:
  explicit Questions(config::Options<QuestionOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    return request.split == data::Split::train ? std::make_shared<Source>(request) : nullptr;
  }
  std::int64_t max_length() const override { return options_->length; }

 private:
  config::Options<QuestionOptions> options_;
};

std::string text_of(const std::string& length, data::Split split = data::Split::train) {
  static plugin::Host host;
  static const bool once = [] {
    host.add(testing::tiny_model());
    host.add(testing::type<data::Data, Questions, QuestionOptions>("data", "questions"));
    return true;
  }();
  CHECK(once);
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("a.toml",
                              "[run]\nhost_memory = 1000\ndevice = \"cpu\"\n[model]\nplugin = \"tiny\"\n"
                              "[data]\nplugin = \"questions\"\ntokenizer = \"byte\"\nlength = " +
                                  length + "\n[train]\nmax_steps = 1\nglobal_batch = 1\n");
  return session::door().cut_answers(testing::job_of(request, host), split);
}

}  // namespace

TEST_CASE("only answers that the cut took away are counted, and what to raise is said") {
  const auto text = text_of("12");
  CHECK_THAT(text, Contains("1 of the first 4 training samples loses its answer") &&
                       Contains("longer than 12 tokens") && Contains("raise data.max_length"));
}

TEST_CASE("nothing is said where all answers are there, nor of a split without data") {
  CHECK(text_of("24").empty());
  CHECK(text_of("12", data::Split::eval).empty());
}

}  // namespace cut_answers_test
