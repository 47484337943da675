// What a tokenizer that says nothing of ranges and special tokens does by default.
#include <capstan/tokenizer/tokenizer.h>

#include <capstan/base/error.h>
#include <capstan_catch.h>

namespace tokenizer_test {

using namespace capstan;
using tokenizer::TextRange;

namespace {

// Pairs of letters are tokens; "!" is the end, and "?" begins a turn.
class Pairs final : public tokenizer::Tokenizer {
 public:
  explicit Pairs(bool lowers) : lowers_(lowers) {}
  std::string name() const override { return "pairs"; }
  std::int64_t vocab_size() const override { return 1 << 16; }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> ids;
    for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(2, text.size()))) {
      const auto second = text.size() > 1 ? text[1] : '\0';
      ids.push_back(lower(text[0]) + 256 * lower(second));
    }
    return ids;
  }
  std::string decode(const std::vector<std::int64_t>& ids) const override {
    std::string text;
    for (const auto id : ids) {
      text += static_cast<char>(id % 256);
      if (id >= 256) text += static_cast<char>(id / 256);
    }
    return text;
  }
  std::vector<std::int64_t> prefix_ids() const override { return {'?'}; }
  std::int64_t end_id() const override { return '!'; }
  std::int64_t pad_id() const override { return -1; }

 private:
  char lower(char c) const { return lowers_ && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; }
  bool lowers_;
};

}  // namespace

TEST_CASE("ranges follow from the texts of tokens, or are refused where these are not the text") {
  const Pairs plain(false);
  const auto encoded = plain.encode_with_ranges("abcde");
  CHECK(encoded.ids == plain.encode("abcde"));
  CHECK(encoded.ranges == std::vector<TextRange>{{0, 2}, {2, 4}, {4, 5}});
  CHECK(plain.encode_with_ranges("").ids.empty());
  const Pairs lowers(true);
  CHECK(lowers.encode_with_ranges("ab").ranges == std::vector<TextRange>{{0, 2}});
  CHECK_THROWS_WITH(lowers.encode_with_ranges("aB"),
                    Contains("the tokenizer 'pairs' does not say where") && Contains("override encode_with_ranges()"));
}

TEST_CASE("a text is encoded without special ids where it has none, and refused where it has") {
  const Pairs pairs(false);
  CHECK(pairs.is_special('!'));
  CHECK(pairs.is_special('?'));
  CHECK_FALSE(pairs.is_special('a'));
  CHECK_FALSE(pairs.is_special(-1));
  CHECK(pairs.encode_ordinary("abc") == pairs.encode("abc"));
  CHECK_THROWS_WITH(pairs.encode_ordinary("ab!"), Contains("makes the special id 33 of a text"));
}

}  // namespace tokenizer_test
