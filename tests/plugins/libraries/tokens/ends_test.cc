#include "tokens/ends.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

namespace ends_test {

using namespace capstan;
using Ids = std::vector<std::int64_t>;
using Sequences = std::vector<Ids>;

namespace {

// Bytes; 256 begins a text, 257 and 258 end one, 259 ends a turn. These have no text.
class Marks final : public tokenizer::Tokenizer {
 public:
  explicit Marks(std::int64_t end = 257) : end_(end) {}
  std::string name() const override { return "marks"; }
  std::int64_t vocab_size() const override { return 260; }
  Ids encode(std::string_view) const override { return {}; }
  std::string decode(const Ids& ids) const override {
    std::string text;
    for (const auto id : ids) text += id < 256 ? std::string(1, static_cast<char>(id)) : "";
    return text;
  }
  Ids prefix_ids() const override { return {256}; }
  std::int64_t end_id() const override { return end_; }
  bool is_end(std::int64_t id) const override { return end_ >= 0 && (id == end_ || id == 258); }
  std::int64_t pad_id() const override { return -1; }

 private:
  std::int64_t end_;
};

// A sample is one sequence, or two; that of none throws.
class Samples final : public data::DataSource {
 public:
  explicit Samples(std::vector<Sequences> samples) : samples_(std::move(samples)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  data::Sample get(std::int64_t index) const override {
    const auto& sequences = samples_.at(static_cast<std::size_t>(index));
    if (sequences.empty()) throw Error("no such sample");
    data::Sample sample;
    sample.tokens = sequences.front();
    sample.is_target.assign(sample.tokens.size(), true);
    for (std::size_t i = 1; i < sequences.size(); ++i)
      sample.others.push_back({sequences[i], std::vector<bool>(sequences[i].size(), true)});
    return sample;
  }
  Ids end_ids() const override { return {259}; }

 private:
  std::vector<Sequences> samples_;
};

std::vector<std::string> faults(const std::vector<Sequences>& samples, bool wants_end = true,
                                const Marks& tokenizer = Marks()) {
  const auto where = [](std::int64_t index) { return "a.jsonl:" + std::to_string(index + 1); };
  return tokens::faults_of_ends(Samples(samples),
                                {tokenizer, where, [&](std::int64_t, const auto&) { return wants_end; }});
}

// Which ids stand twice in such a sample; empty: none.
std::string twice(const Ids& tokens, bool wants_end = true) {
  const auto all = faults({{tokens}}, wants_end);
  if (all.empty()) return {};
  const auto from = all.front().find("(id");
  return all.front().substr(from, all.front().find(')') - from + 1);
}

}  // namespace

TEST_CASE("begin and end tokens of the text beside those that are added are named once, at the first line") {
  const auto all = faults({{{256, 'a', 257}}, {{256, 256, 'a', 257, 257}}, {}, {{256, 'b', 257, 257}}});
  REQUIRE(all.size() == 1);
  CHECK(all.front() ==
        "a.jsonl:2: the text begins or ends with a token that is put there too, so that the model sees it twice (ids "
        "256, 257); so do 2 of the first 3 samples. Take it out of the text, or, if data.turn has it, out of that; "
        "`capstan data` shows the tokens");
}

TEST_CASE("what stands twice: with white space between, another end, a turn's end, in any sequence of a sample") {
  CHECK(twice({256, 'a', 257}).empty());
  CHECK(twice({256, ' ', '\n', 256, 'a', 257}) == "(id 256)");
  CHECK(twice({256, 'a', 257, '\n', 257}) == "(id 257)");
  CHECK(twice({256, 'a', 258, 257}) == "(id 258)");
  CHECK(twice({256, 'a', 256, 'b', 257, 'c', 257}).empty());  // of several documents in one text
  CHECK(twice({256, 257, 'a', 257, 257}, false).empty());     // none is added
  CHECK(twice({256, 'a', 259, 259, '\n'}, false) == "(id 259)");
  CHECK(twice({256, 'a', 259, '\n', 'b', 259, '\n'}, false).empty());
  CHECK(twice({256}).empty());
  CHECK(twice({}).empty());
  CHECK(faults({{{256, 'a', 257}, {256, 'b', 257, 257}}}).size() == 1);
}

TEST_CASE("an end token that is wanted and that the tokenizer does not have is named at the first line") {
  const Marks endless(-1);
  const auto all = faults({{{256, 'a'}}}, true, endless);
  REQUIRE(all.size() == 1);
  CHECK_THAT(all.front(),
             Contains("a.jsonl:1: an end token belongs after this text, and the tokenizer (marks) has none"));
  CHECK(faults({{{256, 'a', 259}}}, false, endless).empty());
}

}  // namespace ends_test
