// Lines of more than max_length tokens: those that are left out, and what is said of those that are cut.
#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <atomic>
#include <cstdlib>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace too_long_test {

using namespace capstan;
using namespace jsonl;
using test::Folder;
using Values = testing::OptionValues;

namespace {

// A byte is a token, and each answer ends with one more.
class Counting final : public tokenizer::Tokenizer {
 public:
  explicit Counting(std::string suffix = {}) : suffix_(std::move(suffix)) {}
  std::string name() const override { return "counting"; }
  std::int64_t vocab_size() const override { return 258; }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    ++encoded_;
    return bytes_.encode(std::string(text) + (text.empty() ? "" : suffix_));
  }
  std::string decode(const std::vector<std::int64_t>& ids) const override { return bytes_.decode(ids); }
  std::int64_t end_id() const override { return 256; }
  std::int64_t pad_id() const override { return 257; }
  int encoded() const { return encoded_; }

 private:
  tokenizer::ByteTokenizer bytes_;
  std::string suffix_;
  mutable std::atomic<int> encoded_{0};
};

struct Opened {
  std::shared_ptr<data::DataSource> source;
  std::string log;  // warnings
};

Opened opened(const Folder& folder, const std::string& lines, Values values, std::int64_t max_length,
              const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer = std::make_shared<Counting>()) {
  values.emplace_back("train", folder.write("a.jsonl", lines));
  const JsonlData data(testing::options_of<JsonlOptions>("data", values));
  const auto log = (folder / "log").string();
  std::filesystem::remove(log);
  log::configure(log, log::Level::error, 0);
  Opened made{data.open({data::Split::train, tokenizer, max_length, 258}), {}};
  (void)data.open({data::Split::train, tokenizer, max_length, 258});  // says nothing twice
  log::configure("", log::Level::warning, 0);
  made.log = is_file(log) ? read_file(log) : "";
  return made;
}

Values with(const std::string& too_long, Values more = {}) {
  more.emplace_back("too_long", too_long);
  return more;
}

std::vector<std::string> ids_of(const data::DataSource& source) {
  std::vector<std::string> ids;
  for (std::int64_t i = 0; i < source.size(); ++i) ids.push_back(source.get(i).id);
  return ids;
}

std::string text_line(std::size_t bytes) { return "{\"text\": \"" + std::string(bytes, 'a') + "\"}\n"; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("lines that are too long are left out, and counted with what they would have taught") {
  const Folder folder;
  // 10, 22, 20 and 31 tokens with their ends; nothing predicts the first of each.
  const auto made = opened(folder, text_line(9) + text_line(21) + text_line(19) + text_line(30), with("drop"), 20);
  CHECK(ids_of(*made.source) == Texts{"line 1", "line 3"});
  CHECK(count_of(made.log, "left out") == 1);
  CHECK_THAT(made.log, Contains("a.jsonl: 2 of 4 lines have more than 20 tokens and are left out (data.too_long), with "
                                "64.6 % of the tokens that bear loss (51 of 79); the first is line 2\n"));
  const auto none = opened(folder, text_line(9) + text_line(19), with("drop"), 20);
  CHECK(none.source->size() == 2);
  CHECK(none.log.find("left out") == std::string::npos);
  CHECK(test::error_of([&] { (void)opened(folder, text_line(20) + text_line(30), with("drop"), 20); }) ==
        (folder / "a.jsonl").string() +
            ": none of its 2 lines has at most 20 tokens (data.too_long)\n    fix: raise data.max_length");
  log::configure("", log::Level::warning, 0);
}

TEST_CASE("a line that is left out is asked for nothing else, and the others are what they were") {
  const Folder folder;
  const std::string line = R"({"id": "q", "prompt": "2+2=", "completion": "4"})";
  const auto made = opened(folder, text_line(99) + line + "\n", with("drop"), 20);
  REQUIRE(made.source->size() == 1);
  CHECK(made.source->get(0).id == "q");
  const auto asked = made.source->question(0, 10);
  CHECK(asked.tokens == std::vector<std::int64_t>{'2', '+', '2', '='});
  CHECK(made.source->score(asked, "4").front().second == 100.0);
}

TEST_CASE("of a pair the longer sequence counts, and of train_samples the first ones") {
  const Folder folder;
  const auto pair = [](const std::string& chosen, const std::string& rejected) {
    return R"({"prompt": "p", "chosen": ")" + chosen + R"(", "rejected": ")" + rejected + "\"}\n";
  };
  const auto lines = pair("a", std::string(30, 'b')) + pair("a", "b") + pair("c", "d");
  const auto made = opened(folder, lines, with("drop", {{"pairs", true}, {"train_samples", std::int64_t{2}}}), 20);
  CHECK(ids_of(*made.source) == Texts{"line 2"});
  CHECK_THAT(made.log, Contains("1 of 2 lines has more than 20 tokens and is left out") && Contains("(33 of 37)"));
}

TEST_CASE("lengths of a large file are measured once, and again for another file or tokenizer") {
  const Folder folder;
  ::setenv("CAPSTAN_CACHE", (folder / "cache").c_str(), 1);
  const auto kept = [&] {
    std::size_t files = 0;
    for (const auto& entry : entries_of(folder / "cache/derived")) files += entry.extension() == ".lengths" ? 1 : 0;
    return files;
  };
  std::string lines = text_line(5000);
  for (int i = 0; i < 3000; ++i) lines += text_line(i % 2 == 0 ? 400 : 900);
  const auto first = std::make_shared<Counting>();
  CHECK(opened(folder, lines, with("drop"), 500, first).source->size() == 1500);
  CHECK(kept() == 1);
  const auto second = std::make_shared<Counting>();
  const auto again = opened(folder, lines, with("drop"), 950, second);
  CHECK(again.source->size() == 3000);
  CHECK_THAT(again.log, Contains("1 of 3,001 lines has more than 950 tokens"));
  CHECK(kept() == 1);
  CHECK(second->encoded() < first->encoded() / 4);
  // A tokenizer that does otherwise under the same name: each text has a token more.
  CHECK(opened(folder, lines, with("drop"), 401, std::make_shared<Counting>()).source->size() == 1500);
  CHECK(opened(folder, lines, with("drop"), 402, std::make_shared<Counting>("b")).source->size() == 1500);
  CHECK(kept() == 2);
  CHECK(test::error_of([&] {
          (void)opened(folder, lines, with("drop"), 401, std::make_shared<Counting>("b"));
        }).find("none of its 3001 lines") != std::string::npos);
  log::configure("", log::Level::warning, 0);
  lines += text_line(10);
  CHECK(opened(folder, lines, with("drop"), 500).source->size() == 1501);
  CHECK(kept() == 3);
  ::unsetenv("CAPSTAN_CACHE");
}

TEST_CASE("a cut that takes labels is counted, one that takes only a prompt's beginning is not") {
  const Folder folder;
  const auto text = opened(folder, text_line(9) + text_line(30) + text_line(20), with("cut"), 20);
  CHECK_THAT(text.log, Contains("a.jsonl: 2 of 2 lines that are cut to 20 tokens lose what bears loss, 12 tokens in "
                                "all; the first is line 2. data.too_long = \"drop\" leaves such lines out\n"));
  CHECK(count_of(text.log, "what bears loss") == 1);
  const auto prompt =
      opened(folder, R"({"prompt": ")" + std::string(40, 'p') + R"(", "completion": "four"})" + "\n", with("cut"), 20);
  CHECK(prompt.source->get(0).tokens.size() == 20);
  CHECK(prompt.log.find("what bears loss") == std::string::npos);
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "first answer"}, )"
      R"({"role": "user", "content": "b"}, {"role": "assistant", "content": "second"}]})"
      "\n";
  const auto turns = opened(folder, text_line(5) + chat, with("cut", {{"turn", std::string("<{role}>{content}")}}), 30);
  CHECK_THAT(
      turns.log,
      Contains("1 of 1 line that is cut to 30 tokens loses what bears loss, 7 tokens in all; the first is line 2."));
}

}  // namespace too_long_test
