#include "plugins/data/squad/prompt.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <algorithm>

namespace prompt_test {

using namespace squad;
using capstan::data::Sample;
using capstan::tokenizer::ByteTokenizer;

namespace {

const Question question{"q1", "Who?", 0, {"Ada", "Ada L."}};
const std::string context = "Ada wrote it.";

std::string text(const Sample& sample, std::size_t begin, std::size_t end) {
  const auto at = sample.tokens.begin();
  return ByteTokenizer().decode({at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(end)});
}

std::string text(const Sample& sample) { return text(sample, 0, sample.tokens.size()); }

// Tokens are words with the space before them, but ": " is one token and " Answer: A" becomes " Answer" ": " "A":
// the prompt's last token merges with the answer's first character, as BPE may do.
class MergingTokenizer : public capstan::tokenizer::Tokenizer {
 public:
  std::string name() const override { return "merging"; }
  std::int64_t vocab_size() const override { return 1000; }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool merges = text.substr(i, 2) == ": ";
      ids.push_back(merges ? 500 : static_cast<unsigned char>(text[i]));
      if (merges) ++i;
    }
    return ids;
  }
  std::string decode(const std::vector<std::int64_t>&) const override { return {}; }
  std::int64_t end_id() const override { return -1; }
  std::int64_t pad_id() const override { return -1; }
};

// Puts a token before a text, as Llama's does.
class BeginningTokenizer final : public MergingTokenizer {
 public:
  std::vector<std::int64_t> prefix_ids() const override { return {999}; }
};

}  // namespace

TEST_CASE("a sample is prompt, answer and end token; the answer bears the loss") {
  const auto sample = make_sample(question, context, ByteTokenizer(), 512, Loss::answer);
  CHECK(text(sample) == "Question: Who? Context: Ada wrote it. Answer: Ada");
  CHECK(sample.tokens.back() == 256);
  const auto prompt = static_cast<std::size_t>(sample.prompt_length);
  CHECK(text(sample, 0, prompt) == "Question: Who? Context: Ada wrote it. Answer:");
  REQUIRE(sample.is_target.size() == sample.tokens.size());
  for (std::size_t t = 0; t < sample.tokens.size(); ++t) CHECK(sample.is_target[t] == (t >= prompt));
  CHECK(sample.id == "q1");
  CHECK(sample.references == question.answers);
}

TEST_CASE("whole-sequence loss makes every token a target") {
  const auto sample = make_sample(question, context, ByteTokenizer(), 512, Loss::sequence);
  CHECK(sample.is_target == std::vector<bool>(sample.tokens.size(), true));
  CHECK(text(sample, 0, static_cast<std::size_t>(sample.prompt_length)).ends_with(" Answer:"));
}

TEST_CASE("the context is cut to fit, and nothing else") {
  const auto whole = make_sample(question, context, ByteTokenizer(), 512, Loss::answer).tokens.size();
  for (std::size_t cut = 0; cut <= context.size(); ++cut) {
    const auto length = whole - cut;
    const auto sample =
        make_sample(question, context, ByteTokenizer(), static_cast<std::int64_t>(length), Loss::answer);
    CHECK(sample.tokens.size() == length);
    CHECK(text(sample) == "Question: Who? Context: " + context.substr(0, context.size() - cut) + " Answer: Ada");
    CHECK(sample.tokens.back() == 256);
    CHECK(std::count(sample.is_target.begin(), sample.is_target.end(), true) == 5);
  }
}

TEST_CASE("a context is never cut inside a character") {
  const std::string wide = "\u6F22\u5B57\u6F22";
  const auto whole = make_sample(question, wide, ByteTokenizer(), 512, Loss::answer).tokens.size();
  const auto cut = make_sample(question, wide, ByteTokenizer(), static_cast<std::int64_t>(whole - 1), Loss::answer);
  CHECK(text(cut) == "Question: Who? Context: \u6F22\u5B57 Answer: Ada");
}

TEST_CASE("a question that cannot fit is named") {
  CHECK_NOTHROW(make_sample(question, context, ByteTokenizer(), 37, Loss::answer));
  CHECK_THROWS_WITH(make_sample(question, context, ByteTokenizer(), 36, Loss::answer),
                    "question 'q1' needs 37 tokens without any context, max_length is 36\n"
                    "    fix: raise max_length to 37 or more, or take the question out");
}

TEST_CASE("where a token spans prompt and answer, the answer begins with that token") {
  const auto sample = make_sample(question, context, MergingTokenizer(), 512, Loss::answer);
  const auto prompt = static_cast<std::size_t>(sample.prompt_length);
  // "… Answer" is the prompt; ": " spans; "Ada" follows; there is no end token.
  CHECK(sample.tokens[prompt] == 500);
  CHECK(sample.tokens.size() == prompt + 4);
  CHECK_FALSE(sample.is_target[prompt - 1]);
  CHECK(sample.is_target[prompt]);
}

TEST_CASE("what the tokenizer puts before a text belongs to the prompt, and counts when the context is cut") {
  const auto without = make_sample(question, context, MergingTokenizer(), 512, Loss::answer);
  const auto with = make_sample(question, context, BeginningTokenizer(), 512, Loss::answer);
  auto expected = without.tokens;
  expected.insert(expected.begin(), 999);
  CHECK(with.tokens == expected);
  CHECK(with.prompt_length == without.prompt_length + 1);
  const auto length = static_cast<std::int64_t>(without.tokens.size());
  CHECK(make_sample(question, context, BeginningTokenizer(), length, Loss::answer).tokens.size() <=
        without.tokens.size());
}

TEST_CASE("what is asked is the prompt, cut to leave room, and the same whatever the answers are") {
  const Question longer{"q1", "Who?", 0, {"Ada Lovelace, Countess of Lovelace"}};
  const Question open{"q1", "Who?", 0, {}};
  const std::string whole = "Question: Who? Context: Ada wrote it. Answer:";
  const auto most = static_cast<std::int64_t>(whole.size());
  for (std::int64_t cut = 0; cut <= static_cast<std::int64_t>(context.size()); ++cut) {
    const auto asked = make_prompt(question, context, ByteTokenizer(), most - cut);
    CHECK(asked.prompt_length == most - cut);
    CHECK(text(asked) ==
          "Question: Who? Context: " + context.substr(0, context.size() - static_cast<std::size_t>(cut)) + " Answer:");
    CHECK(make_prompt(longer, context, ByteTokenizer(), most - cut).tokens == asked.tokens);
    CHECK(make_prompt(open, context, ByteTokenizer(), most - cut).tokens == asked.tokens);
  }
  const auto asked = make_prompt(question, context, ByteTokenizer(), most + 9);
  CHECK(text(asked) == whole);
  CHECK(asked.id == "q1");
  CHECK(asked.references == question.answers);
  CHECK(asked.is_target == std::vector<bool>(asked.tokens.size(), false));
}

TEST_CASE("what is asked begins and ends as in training") {
  const MergingTokenizer merging;
  const BeginningTokenizer beginning;
  for (const capstan::tokenizer::Tokenizer* tokenizer :
       {static_cast<const capstan::tokenizer::Tokenizer*>(&merging),
        static_cast<const capstan::tokenizer::Tokenizer*>(&beginning)}) {
    auto trained = make_sample(question, context, *tokenizer, 512, Loss::answer);
    trained.tokens.resize(static_cast<std::size_t>(trained.prompt_length));
    CHECK(make_prompt(question, context, *tokenizer, 512).tokens == trained.tokens);
  }
}

TEST_CASE("a question that leaves no room for an answer is named") {
  CHECK_NOTHROW(make_prompt(question, context, ByteTokenizer(), 32));
  CHECK_THROWS_WITH(make_prompt(question, context, ByteTokenizer(), 31),
                    "question 'q1' needs 32 tokens without any context; besides an answer there is room for 31\n"
                    "    fix: lower train.max_new_tokens, raise data.max_length, or take the question out");
  CHECK_THROWS_WITH(make_prompt(question, context, ByteTokenizer(), -7), Contains("there is room for 0\n"));
}

}  // namespace prompt_test
